#!/usr/bin/env python3
"""The documentation as a site: README, docs/ and the pages that README lists as a book (mdBook), with Python's API as one
page and `cargo doc` below rust/. It rewrites no text: an order of pages and a place for linked files is all it adds.

  scripts/site.py --check            links and anchors of the Markdown files, in a second, with nothing installed
  scripts/site.py OUT                the site, with the links of its HTML checked; cargo installs mdBook where it is missing
  scripts/site.py OUT --rust FOLDER  with what `cargo doc` wrote: target/doc

Exit code 1: a link leads nowhere. 77: mdBook is not here and cannot be installed.
"""

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MDBOOK = "0.5.4"
LINK = re.compile(r"(?<!\\)(\[(?:[^\[\]]|\[[^\]]*\])*\]\()([^)\s]+)(\))")
BOOK = """[book]
title = "tribunal"
language = "en"
src = "src"
[build]
build-dir = "book"
[output.html]
smart-punctuation = false
[output.html.fold]
enable = true
"""


def outside_code(text):
    """A Markdown text with its code blanked, so that places stay the same."""
    blanked = []
    is_code = False
    for line in text.splitlines():
        is_fence = line.lstrip().startswith("```")
        is_code ^= is_fence
        hidden = is_code or is_fence
        blanked.append("" if hidden else re.sub(r"`[^`]*`", lambda found: " " * len(found[0]), line))
    return "\n".join(blanked)


def anchors(text):
    """The anchors of the headings, as GitHub and mdBook make them."""
    found = set()
    fenced = False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        if fenced or not re.match(r"#{1,6} ", line):
            continue
        heading = LINK.sub(lambda link: link[1][1:-2], line.lstrip("#").strip()).replace("`", "").lower()
        slug = re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")
        found.add(next(name for name in [slug, *(f"{slug}-{n}" for n in range(1, 99))] if name not in found))
    return found


def pages():
    """The pages of the book in README's order, then the Markdown files that they link to."""
    found = [Path("README.md")]
    for page in found:
        for _, target in links(page):
            path = resolved(page, target)
            path = path / "README.md" if (ROOT / path / "README.md").is_file() else path
            if path.suffix == ".md" and (ROOT / path).is_file() and path not in found:
                found.append(path)
    return found


def links(page):
    """Line and target of each link of a page to a file or an anchor of the repository."""
    text = outside_code((ROOT / page).read_text())
    for found in LINK.finditer(text):
        if not re.match(r"[a-z]+:", found[2]):
            yield text.count("\n", 0, found.start(2)) + 1, found[2]


def resolved(page, target):
    return Path(os.path.normpath(page.parent / target.split("#")[0])) if not target.startswith("#") else page


def check(markdown):
    """Links of Markdown files that lead nowhere."""
    for page in markdown:
        for number, target in links(page):
            path, _, anchor = target.partition("#")
            goal = resolved(page, target)
            if not (ROOT / goal).exists():
                yield f"{page}:{number}: `{path}` does not exist"
            elif anchor and goal.suffix == ".md" and anchor not in anchors((ROOT / goal).read_text()):
                yield f"{page}:{number}: `{goal}` has no heading `#{anchor}`"


def title(page):
    return re.search(r"^# (.+)$", (ROOT / page).read_text(), re.MULTILINE)[1].replace("`", "")


def in_book(page):
    """Where a page lies in the book, which calls the first page of a folder `index`."""
    return page.with_name("index.md") if page.name == "README.md" else page


def staged(book, markdown, has_rust):
    """Writes the sources of the book."""
    sources = book / "src"
    for page in markdown:
        text = (ROOT / page).read_text()

        def moved(found, page=page):
            if re.match(r"[a-z]+:|#", found[2]):
                return found[0]
            path, hash_, anchor = found[2].partition("#")
            goal = resolved(page, path)
            if (ROOT / goal / "README.md").is_file():
                goal = goal / "README.md"
            if goal in markdown:
                goal = in_book(goal)
            else:
                goal = copied(goal, sources)
            return found[1] + os.path.relpath(goal, page.parent) + hash_ + anchor + found[3]

        target = sources / in_book(page)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(LINK.sub(moved, text))
    (sources / "python").mkdir(exist_ok=True)
    (sources / "python/api.md").write_text(python_api())
    summary = ["# Summary", "", f"[{title(markdown[0])}](index.md)", ""]
    for page in markdown[1:]:
        summary.append(f"- [{title(page)}]({in_book(page)})")
        if page == Path("python/README.md"):
            summary.append("  - [Python's API](python/api.md)")
    if has_rust:
        (sources / "rust.md").write_text("# Rust's API\n\n[The crate `tribunal`](rust/tribunal/index.html), as `cargo doc` has it.\n")
        summary.append("- [Rust's API](rust.md)")
    (sources / "SUMMARY.md").write_text("\n".join(summary) + "\n")
    (book / "book.toml").write_text(BOOK)


def copied(goal, sources):
    """Copies a linked file or folder into the book; a folder gets a list of its files."""
    target = sources / goal
    target.parent.mkdir(parents=True, exist_ok=True)
    if (ROOT / goal).is_file():
        shutil.copyfile(ROOT / goal, target)
        return goal
    shutil.copytree(ROOT / goal, target, dirs_exist_ok=True)
    files = sorted(path.relative_to(target) for path in target.rglob("*") if path.is_file() and path.name != "index.html")
    items = "".join(f'<li><a href="{file}">{file}</a></li>' for file in files)
    (target / "index.html").write_text(f"<!doctype html><meta charset=utf-8><title>{goal}</title><h1>{goal}</h1><ul>{items}</ul>\n")
    return goal / "index.html"


def python_api():
    """Signatures and docstrings of what `tribunal` exports, and the types of keyword arguments."""
    trees = {path.stem: ast.parse(path.read_text()) for path in sorted((ROOT / "python/tribunal").glob("*.py"))}
    defined = {}
    for name, tree in trees.items():
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                defined[node.name] = node
    [exported] = [node for node in trees["__init__"].body if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"]
    names = [name for name in ast.literal_eval(exported.value) if name in defined and name != "main"]
    keywords = [node for node in trees["keywords"].body if isinstance(node, ast.ClassDef)]
    text = ["# Python's API", "", ast.get_docstring(trees["__init__"]).split("\n")[0], ""]
    for name in sorted(names, key=lambda name: (isinstance(defined[name], ast.FunctionDef), name)):
        text += described(defined[name])
    text += ["## Keyword arguments", "", paragraphs(ast.get_docstring(trees["keywords"])), ""]
    for node in keywords:
        text += described(node)
    return "\n".join(text)


def described(node, owner=""):
    level = "###" if owner else "##"
    text = [f"{level} {owner}{node.name}", ""]
    fields = []
    if isinstance(node, ast.FunctionDef):
        text += ["```python", signature(node, owner), "```", ""]
    else:
        fields = [field for field in node.body if isinstance(field, ast.AnnAssign) and not field.target.id.startswith("_")]
    if docstring := ast.get_docstring(node):
        text += [paragraphs(docstring), ""]
    if isinstance(node, ast.ClassDef) and any(base.id.endswith("Options") for base in node.bases if isinstance(base, ast.Name)):
        text += [f"With those of `{node.bases[0].id}`:", ""]
    if fields:
        text += ["```python", *(f"{ast.unparse(field.target)}: {ast.unparse(field.annotation)}" for field in fields), "```", ""]
    if isinstance(node, ast.ClassDef):
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and (not method.name.startswith("_") or method.name == "__init__"):
                text += described(method, f"{node.name}.")
    return text


def paragraphs(docstring):
    """A docstring as Markdown; examples become code."""
    return re.sub(r"(?:^>>> .*\n?)+", lambda code: f"```python\n{code[0].rstrip()}\n```\n", docstring, flags=re.MULTILINE)


def signature(node, owner):
    given = re.sub(r"^(self|cls)(, )?", "", ast.unparse(node.args))
    returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    name = owner.rstrip(".") if node.name == "__init__" else owner + node.name
    if any(ast.unparse(decorator) == "property" for decorator in node.decorator_list):
        return name + returned
    line = f"{name}({given}){returned}"
    if len(line) <= 100:
        return line
    # Commas inside of brackets separate no arguments.
    parts = re.split(r", (?![^\[]*\])", given)
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returned}"


class Html(HTMLParser):
    """The ids and links of a page."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if "id" in attributes:
            self.ids.add(attributes["id"])
        for name in ("href", "src"):
            if attributes.get(name):
                self.links.append(attributes[name])


def check_html(folder):
    """Links of the book's HTML that lead nowhere; what rustdoc wrote checks itself."""
    read = {path: Html(path.read_text(errors="replace")) for path in folder.rglob("*.html") if "rust" not in path.relative_to(folder).parts}
    for path, html in read.items():
        # What a server shows where there is no page has links from its root; the page for printing has all anchors anew.
        if path.name in ("404.html", "print.html", "toc.html"):
            continue
        for link in html.links:
            if re.match(r"[a-z]+:|//", link) or link == "#":
                continue
            target, _, anchor = link.partition("#")
            goal = Path(os.path.normpath(path.parent / target)) if target else path
            if not goal.is_file():
                yield f"{path.relative_to(folder)}: `{link}` does not exist"
            elif anchor and goal in read and anchor not in read[goal].ids:
                yield f"{path.relative_to(folder)}: `{link}` has no such anchor"


def mdbook():
    """The program, which cargo installs into the user's cache where it is missing."""
    if found := shutil.which("mdbook"):
        return found
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / f"tribunal/mdbook-{MDBOOK}"
    program = cache / "bin/mdbook"
    if not program.exists():
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CARGO_TARGET")}
        environment["CARGO_PROFILE_RELEASE_OPT_LEVEL"] = "0"
        command = ["cargo", "install", "--quiet", "--locked", "--version", MDBOOK, "--no-default-features", "--features", "search"]
        if subprocess.run([*command, "--root", cache, "mdbook"], env=environment).returncode:
            print("not checked: cargo cannot install mdBook here")
            sys.exit(77)
    return program


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--rust", type=Path)
    given = parser.parse_args()
    everywhere = [path.relative_to(ROOT) for folder in ("", "docs", "examples", "models/tiny", "python", "tests/versions") for path in sorted((ROOT / folder).glob("*.md"))]
    found = list(check(everywhere))
    n_links = sum(1 for page in everywhere for _ in links(page))
    if not given.check and not found:
        if given.out is None:
            parser.error("a folder for the site, or --check")
        program = mdbook()
        with tempfile.TemporaryDirectory() as book:
            staged(Path(book), pages(), given.rust is not None)
            subprocess.run([program, "build", book], check=True)
            shutil.copytree(Path(book) / "book", given.out, dirs_exist_ok=True)
        if given.rust:
            shutil.copytree(given.rust, given.out / "rust", dirs_exist_ok=True)
        found = list(check_html(given.out))
    for line in found:
        print(f"error: {line}", file=sys.stderr)
    print(f"{len(everywhere)} Markdown files, {n_links} links, {len(found)} lead nowhere")
    return 1 if found or n_links < 50 else 0


if __name__ == "__main__":
    sys.exit(main())
