"""WsgiDAV over TLS, with a folder that everybody may write: `python webdav_server.py PORT FOLDER CERTIFICATE KEY`."""

import sys

from cheroot import wsgi
from cheroot.ssl.builtin import BuiltinSSLAdapter
from wsgidav.wsgidav_app import WsgiDAVApp

port, folder, certificate, key = sys.argv[1:]
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
server = wsgi.Server(("127.0.0.1", int(port)), app)
server.ssl_adapter = BuiltinSSLAdapter(certificate, key)
server.start()
