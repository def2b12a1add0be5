#!/usr/bin/env python3
"""Checks the AIVS bundle that this file lies in. Needs Python 3 and nothing else.

Exit code 0: everything that could be checked holds. Exit code 1: something does not.
The Ed25519 signatures are checked if the package `cryptography` is installed; if it is
not, that is said and they are left out. Whose key it is, nobody but you can know.
"""

import base64
import hashlib
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
HASHED = ("id", "session_id", "action_type", "tool_name", "cost_cents", "timestamp")
MANIFEST_DOMAIN = "skep/aivs-manifest/v1:"
KEY_PREFIX = "# Ed25519 public key: "


class Broken(Exception):
    pass


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def must(holds, wrong):
    if not holds:
        raise Broken(wrong)


def read(name):
    path = HERE / name
    must(path.is_file() and not path.is_symlink(), f"{name} is missing")
    return path.read_bytes()


def pairs_once(pairs):
    names = [name for name, _ in pairs]
    must(len(names) == len(set(names)), "a key occurs twice in one object")
    return dict(pairs)


def parse(data, what):
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=pairs_once)
    except ValueError as error:
        raise Broken(f"{what} is not JSON: {error}") from error
    must(isinstance(value, dict), f"{what} is not a JSON object")
    return value


def is_int(value):
    return isinstance(value, int) and not isinstance(value, bool)


def check_rows(data, session_id):
    """Each row's hash, its link to the row before, and the order; gives the hashes."""
    hashes, last_id = [], 0
    for number, line in enumerate(data.splitlines(), 1):
        row = parse(line, f"row {number}")
        for name in HASHED + ("prev_hash", "row_hash", "inputs_json", "outputs_json", "error"):
            must(name in row, f"row {number} has no {name}")
        must(is_int(row["id"]) and row["id"] > last_id, f"row {number} is out of order")
        must(is_int(row["cost_cents"]), f"row {number} has no whole cost")
        must(row["session_id"] == session_id, f"row {number} is of another session")
        before = hashes[-1] if hashes else ""
        must(row["prev_hash"] == before, f"row {number} does not follow the row before it")
        text = ":".join(str(row[name]) for name in HASHED) + ":" + row["prev_hash"]
        must(row["row_hash"] == sha256(text.encode("utf-8")), f"row {number} was changed")
        last_id = row["id"]
        hashes.append(row["row_hash"])
    return hashes


def check_files(manifest):
    """The files that the manifest names by their hashes."""
    files = manifest.get("files", {})
    must(isinstance(files, dict), "the manifest's files are no object")
    for name, known in files.items():
        must("/" not in name and "\\" not in name, f"{name!r} is no file name")
        must(sha256(read(name)) == known, f"{name} was changed")
    return sorted(files)


def signed_text(name, what, computed):
    """Reads a file of a hash and maybe a signature over it; gives the signature."""
    lines = read(name).decode("utf-8").splitlines()
    must(lines and lines[0] == f"{what}:{computed}", f"{name} is not about {what} {computed}")
    signature = None
    for line in lines[1:]:
        if line.startswith("signature:") and signature is None:
            signature = line[len("signature:"):]
        else:
            must(line.startswith("#") or not line, f"{name} holds a line that nobody knows")
    return signature


def public_key():
    text = read("public_key.pem").decode("utf-8").strip()
    if text.startswith(KEY_PREFIX):
        return bytes.fromhex(text[len(KEY_PREFIX):])
    must(text.startswith("#"), "public_key.pem cannot be read")
    return None


def check_signature(key, signature, text, what):
    """One line about a signature; raises if it is bad."""
    if signature is None:
        return f"{what}: not signed"
    must(key is not None, f"{what}: signed, but there is no public key")
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        return f"{what}: NOT CHECKED, because Python's package cryptography is not installed"
    try:
        raw = base64.b64decode(signature, validate=True)
        Ed25519PublicKey.from_public_bytes(key).verify(raw, text.encode("utf-8"))
    except (InvalidSignature, ValueError) as error:
        raise Broken(f"{what}: the signature does not verify") from error
    return f"{what}: signed by the key {key.hex()}"


def check():
    manifest_bytes = read("manifest.json")
    manifest = parse(manifest_bytes, "manifest.json")
    for name in ("session_id", "exported_at", "action_count", "chain_hash", "aivs_version"):
        must(name in manifest, f"manifest.json has no {name}")
    hashes = check_rows(read("audit_log.jsonl"), manifest["session_id"])
    must(manifest["action_count"] == len(hashes), "manifest.json counts other actions")
    chain_hash = sha256("".join(hashes).encode("utf-8") if hashes else b"empty")
    must(manifest["chain_hash"] == chain_hash, f"the chain hash is {chain_hash}")
    print(f"rows:     {len(hashes)}, each hash and each link holds")
    print(f"chain:    {chain_hash}")

    files = check_files(manifest)
    if files:
        print(f"files:    {', '.join(files)} are as the manifest says")
    else:
        print("files:    the manifest names none by hash: inputs and outputs are not covered")
    key = public_key()
    signature = signed_text("session_sig.txt", "chain_hash", chain_hash)
    print(check_signature(key, signature, chain_hash, "chain   "))
    sealed = (HERE / "manifest_sig.txt").exists()
    must(sealed or not files, "manifest_sig.txt is missing")
    if sealed:
        own = sha256(manifest_bytes)
        manifest_signature = signed_text("manifest_sig.txt", "manifest_hash", own)
        must((signature is None) == (manifest_signature is None), "only one of two is signed")
        must((signature is None) == ("signer" not in manifest), "the manifest names no signer"
             if signature else "the manifest names a signer, but nothing is signed")
        print(check_signature(key, manifest_signature, MANIFEST_DOMAIN + own, "manifest"))
    print(f"session:  {manifest['session_id']}, exported {manifest['exported_at']}")
    made_of = manifest.get("made_of")
    if made_of:
        print(f"proof:    {made_of} is whole; `skep proof verify` checks what it says")


try:
    check()
except Broken as broken:
    print(f"BROKEN: {broken}")
    sys.exit(1)
except (UnicodeDecodeError, ValueError, TypeError, AttributeError) as error:
    print(f"BROKEN: the bundle cannot be read: {error}")
    sys.exit(1)
print("HOLDS")
