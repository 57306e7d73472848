"""``unmask keys``: make, list and revoke the API keys of a key file."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unmask.cli import options

if TYPE_CHECKING:
    from unmask.serving.security.key import Key

app = typer.Typer(help="Make, list and revoke API keys.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="What the key is called in logs and messages.")]
File = Annotated[Path, typer.Option("--keys", envvar="UNMASK_KEYS", help="The key file.")]
Scopes = Annotated[
    list[str],
    typer.Option("--scope", envvar="UNMASK_SCOPE", help="generate, models, metrics or manage; repeatable."),
]
RequestsPerMinute = Annotated[
    int | None, typer.Option(envvar="UNMASK_REQUESTS_PER_MINUTE", help="Requests of any kind.")
]
TokensPerMinute = Annotated[
    int | None, typer.Option(envvar="UNMASK_TOKENS_PER_MINUTE", help="Tokens of prompts and answers.")
]
TokensPerDay = Annotated[int | None, typer.Option(envvar="UNMASK_TOKENS_PER_DAY", help="The same, in a day.")]
Batch = Annotated[bool, typer.Option("--batch", envvar="UNMASK_BATCH", help="Its requests are of priority batch.")]
Days = Annotated[
    int | None, typer.Option(envvar="UNMASK_DAYS", min=1, max=36500, help="After so many days it opens nothing.")
]


@app.command()
def new(
    name: Name,
    keys: File,
    scope: Scopes = ["generate", "models"],  # noqa: B006 (typer wants a list)
    requests_per_minute: RequestsPerMinute = None,
    tokens_per_minute: TokensPerMinute = None,
    tokens_per_day: TokensPerDay = None,
    batch: Batch = False,
    days: Days = None,
) -> None:
    """Make a key and print it, this once: the file keeps only its digest."""
    import msgspec

    from unmask.errors import InvalidValueError
    from unmask.serving.security import key_file
    from unmask.serving.security.key import NAME, Key, digest, new_secret

    if re.fullmatch(NAME, name) is None:
        raise InvalidValueError(f"'{name[:64]}' names no key.", hint="A name has 1 to 64 of A-Z a-z 0-9 . _ -")
    secret = new_secret()
    now = datetime.now(UTC).replace(microsecond=0)
    told = {
        "name": name,
        "sha256": digest(secret.encode()),
        "scopes": list(dict.fromkeys(scope)),
        "requests_per_minute": requests_per_minute,
        "tokens_per_minute": tokens_per_minute,
        "tokens_per_day": tokens_per_day,
        "priority": "batch" if batch else "interactive",
        "created": now,
        "expires": now + timedelta(days=days) if days else None,
    }
    try:
        key = msgspec.convert(told, Key)
    except msgspec.ValidationError as error:
        raise InvalidValueError(f"This would be no valid key: {error}.") from None
    known = key_file.read(keys)[0] if keys.exists() else []
    if name in [other.name for other in known] or name == key_file.API_KEY_NAME:
        raise InvalidValueError(f"There is a key named '{name}' already.", hint="Revoke it, or choose another name.")
    key_file.write(keys, [*known, key])
    typer.echo("The key is shown only now; send it as 'Authorization: Bearer <key>'.", err=True)
    typer.echo(secret)


@app.command(name="list")
def list_keys(keys: File, json: options.Json = False) -> None:
    """Say which keys there are, and what they may do."""
    import msgspec

    from unmask.serving.security import key_file

    known, _ = key_file.read(keys)
    if json:
        typer.echo(msgspec.json.encode({"keys": [msgspec.structs.asdict(key) for key in known]}).decode())
        return
    for key in known:
        typer.echo(f"{key.name}  {_told(key)}")


@app.command()
def revoke(name: Name, keys: File) -> None:
    """Take a key out of the file. A server that runs refuses it from then on."""
    from unmask.errors import InvalidValueError
    from unmask.serving.security import key_file

    known, _ = key_file.read(keys)
    left = [key for key in known if key.name != name]
    if len(left) == len(known):
        raise InvalidValueError(f"There is no key named '{name[:64]}'.", hint="'unmask keys list' names them.")
    key_file.write(keys, left)
    typer.echo(f"Revoked '{name}'.", err=True)


def _told(key: Key) -> str:
    """What ``key`` may do, in words."""
    limits = {
        "requests per minute": key.requests_per_minute,
        "tokens per minute": key.tokens_per_minute,
        "tokens per day": key.tokens_per_day,
    }
    parts = [", ".join(key.scopes)]
    parts += [f"{limit:,} {what}" for what, limit in limits.items() if limit is not None]
    parts += ["batch"] * (key.priority == "batch")
    if key.expires is not None:
        past = key.expires <= datetime.now(UTC)
        parts.append(f"{'expired' if past else 'until'} {key.expires.isoformat(timespec='minutes')}")
    return "; ".join(parts)
