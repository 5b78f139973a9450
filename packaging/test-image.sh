#!/bin/bash
# Lays out the image of Containerfile in a folder with nothing else but the devices of a container, starts it there as the Containerfile
# says, and moves a tree with the same static program in another such folder. No container engine is needed. Run by `cargo xtask test
# static`, in mount, network and process namespaces of its own:
#   unshare --mount --net --pid --fork --kill-child bash packaging/test-image.sh target/package/image
set -euo pipefail

fail() {
    echo "test static: $*" >&2
    exit 1
}
step() { echo "test static: $*"; }
image=$(realpath "$1")
containerfile=$(realpath "$(dirname "$0")/Containerfile")
program=$image/usr/bin/braidftp
if ldd "$program" 2>/dev/null | grep '=>'; then fail "$program needs shared libraries"; fi

work=$(mktemp -d)
mount -t tmpfs test-static "$work"
trap 'umount --recursive --lazy "$work" && rmdir "$work"' EXIT
mkdir -p "$work/server" "$work/client/tmp"
ip link set lo up
# Every container engine makes these (OCI runtime specification, "Default Devices"); the program reads its seed there.
for folder in server client; do
    mkdir "$work/$folder/dev"
    mknod -m 666 "$work/$folder/dev/null" c 1 3
    mknod -m 666 "$work/$folder/dev/random" c 1 8
    mknod -m 666 "$work/$folder/dev/urandom" c 1 9
done

# The instructions of the Containerfile that this understands; another one is a mistake.
command=()
while read -r instruction rest; do
    case $instruction in
    COPY)
        owner=0:0
        if [[ $rest == --chown=* ]]; then
            owner=${rest%% *}
            owner=${owner#--chown=}
            rest=${rest#* }
        fi
        read -r source target <<<"$rest"
        cp -r "$image/$source" "$work/server$target"
        chown -R "$owner" "$work/server$target"
        ;;
    USER) user=$rest ;;
    ENTRYPOINT | CMD)
        mapfile -t words < <(grep -o '"[^"]*"' <<<"$rest" | tr -d '"')
        command+=("${words[@]}")
        ;;
    FROM) [ "$rest" = scratch ] || fail "the image is built on $rest" ;;
    EXPOSE | STOPSIGNAL | '#'* | '' | podman) ;;
    *) fail "Containerfile: $instruction is not understood" ;;
    esac
done <"$containerfile"

step "start ${command[*]} as $user"
dd if=/dev/urandom of="$work/server/srv/ftp/large" bs=1M count=3 status=none
mkdir "$work/server/srv/ftp/folder"
date >"$work/server/srv/ftp/folder/a small file"
env -i "$(command -v chroot)" --userspec="$user" "$work/server" "${command[@]}" >"$work/log" 2>&1 &
server=$!
cp "$program" "$work/client/braidftp"
client() { env -i HOME=/tmp "$(command -v chroot)" "$work/client" /braidftp "$@"; }
until client ls --accept-new --quiet ftp://127.0.0.1:2121/ >/dev/null 2>&1; do
    kill -0 "$server" 2>/dev/null || fail "the server has ended: $(cat "$work/log")"
    sleep 0.1
done
client mirror --accept-new ftp+sctp://127.0.0.1/ /over-sctp
client mirror --accept-new ftp://127.0.0.1:2121/ /over-tcp
diff -r "$work/server/srv/ftp" "$work/client/over-sctp" || fail "the copy over SCTP differs"
diff -r "$work/server/srv/ftp" "$work/client/over-tcp" || fail "the copy over TCP differs"
# Names, users and groups come through the C library: they must work where none of its files are.
mkdir "$work/client/etc"
echo '127.0.0.1 ftp.example.org' >"$work/client/etc/hosts"
client ls --accept-new ftp+sctp://ftp.example.org/ | grep -q large || fail "no names from /etc/hosts"
kill -TERM "$server"
wait "$server" || fail "the server ended with exit code $?: $(cat "$work/log")"
[ -e "$work/server/var/lib/braidftp/server.pem" ] || fail "the server's key is not in the volume"
step "passed"
