"""moto, an S3 server, which does one request at a time: `python s3_server.py PORT`; it prints the port, which it chooses itself for 0.

moto checks a condition and then writes, so that two conditional requests at once may both succeed; S3 decides for one of them. moto
also ignores If-Match of CompleteMultipartUpload, which this program checks before moto sees the request. Everything else is moto's.
"""

import sys
import threading
from urllib.parse import parse_qs

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import make_server

ACCOUNT = "123456789012"
FAILED = b"<?xml version='1.0'?><Error><Code>PreconditionFailed</Code><Message>If-Match</Message></Error>"

moto = DomainDispatcherApplication(create_backend_app)
one = threading.Lock()


def is_stale(environ):
    """Whether a request to complete an upload names another version than the object has."""
    wanted = environ.get("HTTP_IF_MATCH")
    if environ["REQUEST_METHOD"] != "POST" or wanted is None:
        return False
    if "uploadId" not in parse_qs(environ.get("QUERY_STRING", "")):
        return False
    bucket, _, key = environ["PATH_INFO"].lstrip("/").partition("/")
    found = s3_backends[ACCOUNT]["aws"].get_object(bucket, key.encode("latin-1").decode("utf-8"))
    return found is None or found.etag.strip('"') != wanted.strip('"')


def serve(environ, start_response):
    """Answers one request, while others wait."""
    with one:
        if is_stale(environ):
            start_response("412 Precondition Failed", [("Content-Type", "application/xml"), ("Content-Length", str(len(FAILED)))])
            return [FAILED]
        return list(moto(environ, start_response))


server = make_server("127.0.0.1", int(sys.argv[1]), serve, threaded=True, request_handler=MotoRequestHandler)
print(server.port, flush=True)
server.serve_forever()
