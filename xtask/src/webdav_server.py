"""WsgiDAV over TLS, with a folder that everybody may write: `python webdav_server.py FOLDER CERTIFICATE KEY`; prints its port."""

import sys

from cheroot import wsgi
from cheroot.ssl.builtin import BuiltinSSLAdapter
from wsgidav.wsgidav_app import WsgiDAVApp

folder, certificate, key = sys.argv[1:]
app = WsgiDAVApp(
    {
        "provider_mapping": {"/": folder},
        "simple_dc": {"user_mapping": {"*": True}},
        # Modification times of files are properties, which it keeps in memory.
        "property_manager": True,
        "logging": {"enable": False},
        "verbose": 0,
    }
)
server = wsgi.Server(("127.0.0.1", 0), app)
server.ssl_adapter = BuiltinSSLAdapter(certificate, key)
server.prepare()
print(server.bind_addr[1], flush=True)
server.serve()
