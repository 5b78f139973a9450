"""One flow over the kernel's MPTCP (RFC 8684), for `cargo xtask bench multipath`: a server that sends, a client that reads.

    mptcp_flow.py serve ADDRESS PORT BYTES      prints `listening`, serves one connection
    mptcp_flow.py fetch ADDRESS PORT            prints {"bytes": …, "seconds": …, "subflows": …}, the clock from connect on
"""

import json
import socket
import sys
import time

IPPROTO_MPTCP = 262
SOL_MPTCP = 284
MPTCP_INFO = 1
BLOCK = 256 * 1024


def serve(address, port, size):
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen()
    print("listening", flush=True)
    connection, _ = listener.accept()
    block = bytes(BLOCK)
    while size > 0:
        size -= connection.send(block[: min(BLOCK, size)])
    connection.shutdown(socket.SHUT_WR)
    connection.recv(1)


def fetch(address, port):
    connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
    began = time.monotonic()
    connection.connect((address, port))
    total, subflows = 0, 0
    while block := connection.recv(BLOCK):
        total += len(block)
        # struct mptcp_info begins with the number of subflows beyond the first; one that was refused was counted for a while.
        subflows = connection.getsockopt(SOL_MPTCP, MPTCP_INFO, 64)[0]
    seconds = time.monotonic() - began
    print(json.dumps({"bytes": total, "seconds": seconds, "subflows": subflows + 1}))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        fetch(sys.argv[2], int(sys.argv[3]))
