"""braidftp: experiments with SCTP, TCP and FTP (`braidftp.lab`), and a client that moves many files over bad networks.

    from braidftp import Client
    with Client("ftp+sctp://files.example.org/data", accept_new=True) as client:
        client.mirror("", "copy")

    from braidftp import lab
    results = lab.template("two-paths").run(quick=True)
"""

from . import lab
from ._braidftp import ControllerError, Error, ScenarioError, __version__
from .client import AsyncClient, Client, RemoteFile, Stat, Summary

__all__ = [
    "AsyncClient",
    "Client",
    "ControllerError",
    "Error",
    "RemoteFile",
    "ScenarioError",
    "Stat",
    "Summary",
    "__version__",
    "lab",
]
