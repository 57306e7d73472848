"""What is wrong with the machine, or with what a server is started with."""

from __future__ import annotations

from unmask.errors.base import UnmaskError


class NotInstalledError(UnmaskError):
    """The request needs an optional part of Unmask, whose package is not installed here."""

    code = "not_installed"
    status = 501


class PortBusyError(UnmaskError):
    """Another process listens on the address asked for."""

    code = "port_busy"
    status = 500


class InvalidConfigError(UnmaskError):
    """The configuration file cannot be read, or says what no configuration does; `param` is the path of the key."""

    code = "invalid_config"
    status = 500


class InvalidKeyFileError(UnmaskError):
    """The key file cannot be read, or does not hold keys as `unmask keys` writes them."""

    code = "invalid_key_file"
    status = 500


class InvalidEngineRegistryError(UnmaskError):
    """The file of engines cannot be read or written, or does not hold engines as `unmask engine` writes them."""

    code = "invalid_engine_registry"
    status = 500


class EngineUnusableError(UnmaskError):
    """The program given is no engine that Unmask can start, or it does not run on this machine."""

    code = "engine_unusable"
    status = 400


class EngineBuildError(UnmaskError):
    """An engine could not be built or installed: a tool is missing, or the build failed."""

    code = "engine_build_failed"
    status = 500


class ServerUnreachableError(UnmaskError):
    """No Unmask server answers at the address that a command asks."""

    code = "server_unreachable"
    status = 503
