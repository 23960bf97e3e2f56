"""The weights statement: what a release *is*, as bytes.

An in-toto Statement v1 with the OpenSSF model-signing predicate v1.0, in RFC 8785 form. It
depends on the files and on nothing else: the subject is always called `model`, resources are
sorted by path, nothing is ignored. Therefore its SHA-256, the candidate id, is the same
wherever the same files are. (The subject's own digest leaves the file names out, so it cannot
serve as one.)
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from reef_release.domain.canonical import canonical_json, parse_json, sha256_hex
from reef_release.domain.reasons import Reason
from reef_release.errors import BadRequest

__all__ = [
    "PREDICATE_TYPE",
    "STATEMENT_TYPE",
    "SUBJECT_NAME",
    "candidate_id",
    "digests_by_path",
    "parse_statement",
    "weights_statement",
]

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://model_signing/signature/v1.0"
SUBJECT_NAME = "model"
_SERIALIZATION = {"method": "files", "hash_type": "sha256", "allow_symlinks": False}

_MAX_FILES = 10_000
_MAX_PATH_BYTES = 1024
_MAX_NAME_BYTES = 255
# ASCII, because two Unicode forms of one name are one file on some systems and two on others;
# no leading dot, because the stock verifier ignores `.git*` whatever the signature says; no
# trailing dot, which some systems strip.
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._+=@-]*[A-Za-z0-9_+=@-])?")
_DIGEST = re.compile(r"[0-9a-f]{64}")


def digests_by_path(entries: Iterable[tuple[str, str]]) -> dict[str, str]:
    """(path, sha256) pairs as a mapping; raises `BadRequest` when a path stands twice."""
    files: dict[str, str] = {}
    for path, digest in entries:
        if path in files:
            raise BadRequest(
                f"The file {path!r} is listed twice.", next_step="List every file once."
            )
        files[path] = digest
    return files


def weights_statement(files: Mapping[str, str]) -> bytes:
    """The RFC 8785 bytes of the statement over *files* (relative POSIX path to hex SHA-256).

    Raises `BadRequest` with every reason: no file, unsafe paths, paths that are one file on
    some file systems, digests that are not 64 lowercase hex digits.
    """
    reasons = _reasons(files)
    if reasons:
        raise BadRequest(
            "These files cannot be named in a weights statement.",
            next_step="Rename or leave out the files listed.",
            reasons=reasons,
        )
    resources = [
        {"name": path, "algorithm": "sha256", "digest": files[path]} for path in sorted(files)
    ]
    combined = hashlib.sha256(b"".join(bytes.fromhex(each["digest"]) for each in resources))
    return canonical_json(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": SUBJECT_NAME, "digest": {"sha256": combined.hexdigest()}}],
            "predicateType": PREDICATE_TYPE,
            "predicate": {"serialization": _SERIALIZATION, "resources": resources},
        }
    )


def candidate_id(files: Mapping[str, str]) -> str:
    """Hex SHA-256 of `weights_statement(files)`: the id of the candidate and of the release."""
    return sha256_hex(weights_statement(files))


def parse_statement(payload: bytes) -> dict[str, str]:
    """The files that *payload* states; raises `BadRequest`.

    Accepts exactly what `weights_statement` makes: the statement is built again from the
    resources read and must be equal to the last byte, so another subject name,
    `ignore_paths`, an extra field or another order cannot pass.
    """
    value = parse_json(payload)
    try:
        resources = value["predicate"]["resources"]
        files = digests_by_path((_text(each, "name"), _text(each, "digest")) for each in resources)
    except (KeyError, TypeError, IndexError) as error:
        raise BadRequest(
            "This is not a weights statement: predicate.resources is missing or malformed.",
            next_step="Sign the files with this project's signer.",
        ) from error
    if weights_statement(files) != payload:
        raise BadRequest(
            "This statement is not the canonical one over its files: it has another subject, "
            "other settings, extra fields or another form.",
            next_step="Sign the files with this project's signer.",
        )
    return files


def _text(resource: Any, field: str) -> str:
    value = resource[field]
    if not isinstance(value, str):
        raise TypeError(field)
    return value


def _reasons(files: Mapping[str, str]) -> list[Reason]:
    reasons: list[Reason] = []
    if not files:
        reasons.append(Reason(code="no-files", message="name at least one file"))
    if len(files) > _MAX_FILES:
        message = f"at most {_MAX_FILES} files can be named; these are {len(files)}"
        return [Reason(code="too-many-files", message=message)]
    folded: dict[str, str] = {}
    for path, digest in sorted(files.items()):
        if not _is_safe(path):
            message = (
                "use a relative path of names made of letters, digits and ._+=@- "
                "that do not begin or end with a dot"
            )
            reasons.append(Reason(code="unsafe-path", message=message, where=path))
        if not _DIGEST.fullmatch(digest):
            message = "a digest is 64 lowercase hex digits of SHA-256"
            reasons.append(Reason(code="bad-digest", message=message, where=path))
        twin = folded.setdefault(path.lower(), path)
        if twin != path:
            message = f"differs from {twin!r} only by case, which some file systems ignore"
            reasons.append(Reason(code="ambiguous-path", message=message, where=path))
    for path in sorted(files):
        parents = path.lower().split("/")[:-1]
        for depth in range(1, len(parents) + 1):
            parent = folded.get("/".join(parents[:depth]))
            if parent is not None:
                message = f"{parent!r} is a file, so nothing can stand below it"
                reasons.append(Reason(code="ambiguous-path", message=message, where=path))
    return reasons


def _is_safe(path: str) -> bool:
    names = path.split("/")
    return len(path) <= _MAX_PATH_BYTES and all(
        len(name) <= _MAX_NAME_BYTES and _NAME.fullmatch(name) for name in names
    )
