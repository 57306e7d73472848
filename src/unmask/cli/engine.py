"""``unmask engine``: the engines of other kinds that Unmask may start."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unmask.cli import options
from unmask.cli.completion import complete_added

if TYPE_CHECKING:
    from unmask.gateway.engine import Engine, EngineKind
    from unmask.gateway.lane import Lane

app = typer.Typer(help="Add, list, probe, build and remove engines of other kinds.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="What the engine is called: its lane's name.")]
Added = Annotated[
    str, typer.Argument(help="What the engine is called: its lane's name.", autocompletion=complete_added)
]
Program = Annotated[Path | None, typer.Argument(help="Its program, llama-server for one.")]
Kind = Annotated[
    str,
    typer.Option(
        envvar="UNMASK_ENGINE_KIND", help="llama.cpp; or sglang or vllm, PATH then being a Python that has it."
    ),
]
Package = Annotated[
    str | None, typer.Option(envvar="UNMASK_PACKAGE", help="Instead of PATH: an installed package that ships it.")
]
Install = Annotated[
    bool, typer.Option("--install", envvar="UNMASK_INSTALL", help="Fetch the package from PyPI, into its own place.")
]
Model = Annotated[
    str | None, typer.Option(envvar="UNMASK_PROBE_MODEL", help="Load this model, too, and have it write a token.")
]
Source = Annotated[Path, typer.Argument(help="Folder of llama.cpp's source.")]
Target = Annotated[str, typer.Option(envvar="UNMASK_BUILD_TARGET", help="Program to build.")]
Define = Annotated[
    list[str] | None,
    typer.Option(envvar="UNMASK_BUILD_DEFINE", help="NAME=VALUE for cmake, GGML_CUDA=ON for one; repeatable."),
]
Jobs = Annotated[int, typer.Option(envvar="UNMASK_BUILD_JOBS", min=0, help="Files compiled at once; 0: one per core.")]


@app.command()
def add(
    name: Name,
    path: Program = None,
    kind: Kind = "llama.cpp",
    package: Package = None,
    install: Install = False,
) -> None:
    """Make an engine known: a program, or one that a package brought. It is probed first, and nothing is downloaded
    unless --install says so.
    """
    from unmask.gateway.engine_packages import install_engine, installed_engine

    if (path is None) == (package is None):
        raise typer.BadParameter("give either PATH or --package.", param_hint="PATH")
    if kind not in ("llama.cpp", "sglang", "vllm"):
        raise typer.BadParameter(f"'{kind}' is none of llama.cpp, sglang, vllm.", param_hint="--kind")
    if package is None and install:
        raise typer.BadParameter("it installs what --package names.", param_hint="--install")
    if package is not None and kind != "llama.cpp":
        raise typer.BadParameter("a package has its kind already.", param_hint="--kind")
    _check_free(name)
    if path is not None:
        _register(name, kind, path.expanduser().absolute(), "a path")  # type: ignore[arg-type]
    elif install:
        assert package is not None
        try:
            _register(name, *install_engine(package, _folder(name), _say))
        except BaseException:  # an interrupt, too, leaves nothing behind
            shutil.rmtree(_folder(name), ignore_errors=True)
            raise
    else:
        assert package is not None
        _register(name, *installed_engine(package))


@app.command(name="list")
def list_engines(json: options.Json = False) -> None:
    """Say which engines there are, what each serves, and why one cannot be used."""
    import msgspec

    from unmask.gateway.engine_registry import RegistryFile
    from unmask.gateway.lanes import known_lanes

    registry, lanes = RegistryFile().read(), known_lanes()
    if not json:
        for lane in lanes:
            typer.echo(_told(lane, registry.engine(lane.name)))
        return
    rows = [_row(lane, registry.engine(lane.name)) for lane in lanes]
    typer.echo(msgspec.json.encode({"engines": rows}).decode())


@app.command()
def remove(name: Added) -> None:
    """Forget an engine; what --install or build made for it, even if it failed, is deleted, and nothing else."""
    from unmask.gateway.engine_registry import RegistryFile

    with RegistryFile().changing() as changes:
        if not _is_left_of_a_build(changes.registry.engine(name), name):
            _known(changes.registry.engine(name), name)
        changes.registry = changes.registry.without(name)
    shutil.rmtree(_folder(name), ignore_errors=True)
    typer.echo(f"Removed '{name}'.", err=True)


@app.command()
def probe(name: Added, model: Model = None) -> None:
    """Find out anew what an engine serves, after an update for one."""
    import msgspec

    from unmask.errors import EngineUnusableError
    from unmask.gateway import engine_probe
    from unmask.gateway.engine_registry import RegistryFile
    from unmask.gateway.engine_trial import try_model

    engine = _known(RegistryFile().read().engine(name), name)
    asked: EngineKind = "llama.cpp" if engine.kind == "logits_worker" else engine.kind
    try:
        kind, probed = engine_probe.probe(asked, Path(engine.program))
    except EngineUnusableError as error:
        _store(msgspec.structs.replace(engine, fault=error.message), engine)
        raise
    found = msgspec.structs.replace(engine, kind=kind, probed=probed, fault="")
    _store(found, engine)
    if model is not None:
        _say(f"It loaded the model and wrote a token, in {try_model(found, model):.1f} s.")


@app.command()
def build(name: Name, source: Source, target: Target = "llama-server", jobs: Jobs = 0, define: Define = None) -> None:
    """Build llama.cpp from its source with cmake, and make it known. Built again, it takes the place of the former."""
    from unmask.gateway.engine_build import build_llama_cpp
    from unmask.gateway.engine_registry import RegistryFile

    folder = _folder(name)
    former = RegistryFile().read().engine(name)
    if former is None or not Path(former.program).is_relative_to(folder):
        _check_free(name)
    jobs = jobs or os.cpu_count() or 1
    program = build_llama_cpp(source.expanduser(), folder, target, jobs, _say, define or ())
    _register(name, "llama.cpp", program, f"built from {source.absolute()}", former)


def _register(name: str, kind: EngineKind, program: Path, source: str, former: Engine | None = None) -> None:
    from unmask.gateway import engine_probe
    from unmask.gateway.engine import Engine

    found, probed = engine_probe.probe(kind, program)
    _store(Engine(name, found, str(program), source, probed), former)


def _store(engine: Engine, former: Engine | None) -> None:
    """Write it in place of the ``former`` one, and say what it serves."""
    from unmask.errors import InvalidValueError
    from unmask.gateway.engine_lanes import engine_lane
    from unmask.gateway.engine_registry import RegistryFile

    with RegistryFile().changing() as changes:
        if changes.registry.engine(engine.name) != former:
            raise InvalidValueError(
                f"The engine '{engine.name}' was added, changed or removed meanwhile.", hint="See: unmask engine list"
            )
        changes.registry = changes.registry.with_engine(engine)
    typer.echo(_told(engine_lane(engine), engine), err=True)


def _check_free(name: str) -> None:
    """Raise ``InvalidValueError`` unless an engine may be called ``name``."""
    from unmask.errors import InvalidValueError
    from unmask.gateway.engine import NAME
    from unmask.gateway.engine_registry import RESERVED, RegistryFile
    from unmask.shown import shown

    if re.fullmatch(NAME, name) is None:
        raise InvalidValueError(
            f"{shown(name)} names no engine.", hint="A name has 1 to 64 of A-Z a-z 0-9 . _ -, a letter or digit first."
        )
    if name in RESERVED or RegistryFile().read().engine(name) is not None:
        raise InvalidValueError(
            f"There is an engine '{name}' already.", hint="Choose another name, or: unmask engine remove NAME"
        )


def _known(engine: Engine | None, name: str) -> Engine:
    from unmask.errors import UnknownLaneError
    from unmask.gateway.engine_registry import RESERVED
    from unmask.shown import shown

    if name in RESERVED:
        raise UnknownLaneError(f"The engine '{name}' comes with Unmask; it is neither probed nor removed.")
    if engine is None:
        raise UnknownLaneError(f"No engine called {shown(name)} was added.", hint="'unmask engine list' names them.")
    return engine


def _is_left_of_a_build(engine: Engine | None, name: str) -> bool:
    """Whether there is but the folder of a build that has failed."""
    from unmask.gateway.engine import NAME

    return engine is None and re.fullmatch(NAME, name) is not None and _folder(name).is_dir()


def _folder(name: str) -> Path:
    """Where things are that were made for the engine ``name``."""
    from unmask.home import home

    return home() / "engines" / name


def _say(line: str) -> None:
    typer.echo(line, err=True)


def _row(lane: Lane, engine: Engine | None) -> dict[str, object]:
    return {
        "name": lane.name,
        "kind": lane.kind,
        "program": None if engine is None else engine.program,
        "source": None if engine is None else engine.source,
        "usable": not lane.missing,
        "missing": lane.missing or None,
        "remedy": lane.remedy if lane.missing else None,
        "architectures": {paradigm: sorted(names) for paradigm, names in lane.architectures.items()},
    }


def _told(lane: Lane, engine: Engine | None) -> str:
    """One line on an engine."""
    from unmask.shown import printable

    counts = [f"{len(names)} {paradigm}" for paradigm, names in lane.architectures.items() if names]
    parts = [lane.kind, f"{' and '.join(counts) or 'no'} architectures"]
    parts += [] if engine is None else [engine.program]
    parts += [f"cannot be used: {lane.missing}; {lane.remedy}"] if lane.missing else []
    return printable(f"{lane.name}  {'; '.join(parts)}")
