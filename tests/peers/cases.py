"""Small skills that some readers take and others refuse, and what is known of each: the facts behind `lint --peers`.

The letters say which peers refuse a skill: F for FastMCP, T for the TypeScript SDK, G for the Go SDK, S for skills-ref.
Refusals stand beside neighbours that are tolerated.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skillquay.core.peers import Peer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["CASES", "Case"]

_LETTERS = {"F": Peer.FASTMCP, "T": Peer.TYPESCRIPT, "G": Peer.GO, "S": Peer.SKILLS_REF}
_INNER = b"---\nname: inner\ndescription: Does less.\n---\n"
_HEAD = "name: demo\ndescription: Does a thing.\n"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A tree with one skill in it, at `skill`. Paths are relative to the skill's directory."""

    skill_md: bytes
    refused_by: frozenset[Peer]
    skill: str = "demo"
    files: Mapping[str, int | bytes] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    fifos: tuple[str, ...] = ()

    @property
    def is_alone(self) -> bool:
        """True when there is nothing but a SKILL.md."""
        return not (self.files or self.links or self.fifos)

    def write(self, tree: Path) -> None:
        """Make the tree at this place. A file has these bytes, or so many zeros."""
        root = tree / self.skill
        root.mkdir(parents=True)
        (root / "SKILL.md").write_bytes(self.skill_md)
        for path, content in self.files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(bytes(content))
        for path, target in self.links.items():
            (root / path).symlink_to(target)
        for path in self.fifos:
            os.mkfifo(root / path)


def _peers(letters: str) -> frozenset[Peer]:
    return frozenset(_LETTERS[letter] for letter in letters)


def _more(letters: str, fields: str) -> Case:
    """A skill that would be fine without these fields."""
    return Case(skill_md=f"---\n{_HEAD}{fields}\n---\nBody.\n".encode(), refused_by=_peers(letters))


def _only(letters: str, fields: str, skill: str = "demo") -> Case:
    """A skill with no other fields than these."""
    return Case(skill_md=f"---\n{fields}\n---\nBody.\n".encode(), refused_by=_peers(letters), skill=skill)


def _file(letters: str, text: str | bytes) -> Case:
    """A whole SKILL.md."""
    return Case(skill_md=text if isinstance(text, bytes) else text.encode(), refused_by=_peers(letters))


def _with(
    letters: str,
    files: Mapping[str, int | bytes] | None = None,
    *,
    skill: str = "demo",
    links: Mapping[str, str] | None = None,
    fifos: tuple[str, ...] = (),
) -> Case:
    """A good SKILL.md among other things."""
    return Case(
        skill_md=f"---\n{_HEAD}---\n".encode(),
        refused_by=_peers(letters),
        skill=skill,
        files=files or {},
        links=links or {},
        fifos=fifos,
    )


_DELIMITERS = {
    "good": _file("", f"---\n{_HEAD}---\nBody.\n"),
    "no-newline-at-the-end": _file("", f"---\n{_HEAD}---"),
    "windows-line-ends": _file("", f"---\n{_HEAD}---\nBody.\n".replace("\n", "\r\n")),
    "old-mac-line-ends": _file("FTG", f"---\n{_HEAD}---\nBody.\n".replace("\n", "\r")),
    "byte-order-mark": _file("GS", f"\ufeff---\n{_HEAD}---\n"),
    "two-byte-order-marks": _file("FTGS", f"\ufeff\ufeff---\n{_HEAD}---\n"),
    "byte-order-mark-inside": _file("TS", f"---\n\ufeff{_HEAD}---\n"),
    "spaces-after-the-opening": _file("FTG", f"--- \n{_HEAD}---\n"),
    "spaces-after-the-closing": _file("FG", f"---\n{_HEAD}--- \nBody.\n"),
    "spaces-after-the-closing-and-a-rule-in-the-body": _file("F", f"---\n{_HEAD}--- \nBody.\n---\nMore.\n"),
    "tab-after-the-closing": _file("FG", f"---\n{_HEAD}---\t\nBody.\n"),
    "indented-closing": _file("FTG", f"---\n{_HEAD} ---\nBody.\n"),
    "four-dashes-at-the-end": _file("FTG", f"---\n{_HEAD}----\nBody.\n"),
    "dots-at-the-end": _file("FTGS", f"---\n{_HEAD}...\nBody.\n"),
    "no-closing": _file("FTGS", f"---\n{_HEAD}Body.\n"),
    "no-frontmatter": _file("FTGS", "# Title\n\nBody.\n"),
    "text-before-the-frontmatter": _file("FTGS", f"\n---\n{_HEAD}---\n"),
    "all-on-one-line": _file("FTGS", "--- name: demo ---\n"),
    "empty-file": _file("FTGS", ""),
    "empty-frontmatter": _file("FTGS", "---\n---\nBody.\n"),
    "blank-frontmatter": _file("FTGS", "---\n\n---\nBody.\n"),
    "only-a-comment": _file("FTGS", "---\n# nothing\n---\nBody.\n"),
    "a-rule-in-the-body": _file("", f"---\n{_HEAD}---\nBody.\n\n---\n\nMore.\n"),
    "not-utf-8-in-the-body": _file("FTS", f"---\n{_HEAD}---\n".encode() + b"caf\xe9\n"),
    "not-utf-8-in-the-frontmatter": _file("FTGS", f"---\n{_HEAD}license: caf".encode() + b"\xe9\n---\n"),
    "dashes-in-the-description": _only("", "name: demo\ndescription: Does --- a thing."),
    "dashes-before-the-description": _only("S", "name: demo\nlicense: a---b\ndescription: Does a thing."),
    "dashes-in-a-comment": _only("S", "# --- demo ---\nname: demo\ndescription: Does a thing."),
    "dots-and-a-second-document": _more("FTS", "...\nother: thing"),
}
_FIELDS = {
    "no-name": _only("FTGS", "description: Does a thing."),
    "empty-name": _only("FTGS", "name:\ndescription: Does a thing."),
    "name-of-another-directory": _only("FTGS", "name: other\ndescription: Does a thing."),
    "upper-case-name": _only("FTGS", "name: Demo\ndescription: Does a thing.", "Demo"),
    "name-with-an-underscore": _only("FTGS", "name: de_mo\ndescription: Does a thing.", "de_mo"),
    "name-with-two-hyphens": _only("FTGS", "name: de--mo\ndescription: Does a thing.", "de--mo"),
    "name-that-ends-with-a-hyphen": _only("FTGS", "name: demo-\ndescription: Does a thing.", "demo-"),
    "name-of-64": _only("", f"name: {'a' * 64}\ndescription: Does a thing.", "a" * 64),
    "name-of-65": _only("FTGS", f"name: {'a' * 65}\ndescription: Does a thing.", "a" * 65),
    "name-in-another-script": _only("FT", "name: überblick\ndescription: Does a thing.", "überblick"),
    "name-in-compatibility-letters": _only("FTG", "name: demo\ndescription: Does a thing.", "ｄemo"),
    "name-with-spaces-around": _only("FTG", 'name: " demo "\ndescription: Does a thing.'),
    "name-that-is-a-number": _only("FTG", "name: 42\ndescription: Does a thing.", "42"),
    "name-that-is-a-quoted-number": _only("", "name: '42'\ndescription: Does a thing.", "42"),
    "name-that-is-yes": _only("F", "name: yes\ndescription: Does a thing.", "yes"),
    "name-that-is-true": _only("FTG", "name: true\ndescription: Does a thing.", "true"),
    "name-that-is-old-octal": _only("FTG", "name: 0123\ndescription: Does a thing.", "0123"),
    "name-that-is-sexagesimal": _only("FTGS", "name: 1:30\ndescription: Does a thing.", "1:30"),
    "name-that-is-a-date": _only("FG", "name: 2026-01-02\ndescription: Does a thing.", "2026-01-02"),
    "name-that-is-no-date": _only("F", "name: 2026-02-30\ndescription: Does a thing.", "2026-02-30"),
    "no-description": _only("FTGS", "name: demo"),
    "empty-description": _only("FTGS", "name: demo\ndescription:"),
    "blank-description": _only("FS", 'name: demo\ndescription: "  "'),
    "description-that-is-a-date": _only("FG", "name: demo\ndescription: 2026-01-02"),
    "description-that-is-equals": _only("FS", "name: demo\ndescription: ="),
    "compatibility-that-is-a-merge": _more("FS", "compatibility: <<"),
    "description-of-1024": _only("", f"name: demo\ndescription: {'é' * 1024}"),
    "description-of-1025": _only("FTGS", f"name: demo\ndescription: {'é' * 1025}"),
    "description-of-1024-outside-of-the-bmp": _only("", f"name: demo\ndescription: {'😀' * 1024}"),
    # FastMCP and the Go SDK cut before the last line end, so that a block at the very end has none.
    "description-of-1024-in-the-last-block": _only("TS", f"name: demo\ndescription: |\n  {'a' * 1024}"),
    "description-of-1024-in-a-block": _only("FTGS", f"description: |\n  {'a' * 1024}\nname: demo"),
    "description-of-1024-in-a-stripped-block": _only("", f"name: demo\ndescription: |-\n  {'a' * 1024}"),
    "description-with-a-colon": _only("FTGS", "name: demo\ndescription: Use it when: always."),
    "description-with-a-quoted-colon": _only("", 'name: demo\ndescription: "Use it when: always."'),
    "description-that-is-a-list": _only("FTGS", "name: demo\ndescription:\n  - a"),
    "license-that-is-a-number": _more("FG", "license: 2.0"),
    "license-that-is-empty": _more("FG", "license:"),
    "tools-in-a-list": _more("FG", "allowed-tools:\n  - Read\n  - Bash"),
    "tools-in-a-flow-list": _more("FGS", "allowed-tools: [Read, Bash]"),
    "compatibility-of-500": _more("", f"compatibility: {'a' * 500}"),
    "compatibility-of-501": _more("FTGS", f"compatibility: {'a' * 501}"),
    "compatibility-that-is-empty": _more("FTG", "compatibility: ''"),
    "compatibility-that-is-null": _more("FTG", "compatibility:"),
    "compatibility-that-is-a-number": _more("FTG", "compatibility: 3"),
    "compatibility-that-is-a-list": _more("FTGS", "compatibility:\n  - a"),
    "unknown-field": _more("S", "version: '1.0'"),
    "unknown-number": _more("S", "version: 1.0"),
    "unknown-date": _more("FS", "released: 2026-01-02"),
    "unknown-time": _more("FS", "released: 2026-01-02T03:04:05Z"),
    "unknown-nan": _more("FTGS", "ratio: .nan"),
    "unknown-number-beyond-doubles": _more("TS", f"count: 1{'0' * 400}"),
    "unknown-number-beyond-python": _more("FTS", f"count: 1{'0' * 5000}"),
    "metadata-of-strings": _more("", "metadata:\n  author: me\n  version: '1.0'"),
    "metadata-with-a-number": _more("FTG", "metadata:\n  version: 1.0"),
    "metadata-with-a-boolean": _more("FTG", "metadata:\n  stable: true"),
    "metadata-with-yes": _more("F", "metadata:\n  stable: yes"),
    "metadata-with-a-date": _more("FG", "metadata:\n  released: 2026-01-02"),
    "metadata-with-a-quoted-date": _more("", "metadata:\n  released: '2026-01-02'"),
    "metadata-with-sixties": _more("F", "metadata:\n  length: 1:30"),
    "metadata-with-underscores": _more("FG", "metadata:\n  count: 1_000"),
    "metadata-with-nothing": _more("FTG", "metadata:\n  author:"),
    "metadata-with-a-list": _more("FTG", "metadata:\n  tags:\n    - a"),
    "metadata-with-a-reserved-key": _more("", "metadata:\n  io.modelcontextprotocol/x: a"),
    "metadata-in-braces": _more("S", "metadata: {author: me}"),
    "metadata-that-is-empty": _more("FTG", "metadata:"),
    "metadata-that-is-a-string": _more("FTG", "metadata: me"),
    "metadata-that-is-a-list": _more("FTG", "metadata:\n  - me"),
}
_YAML = {
    "flow-list-on-one-line": _more("S", "x: [a, 'b', \"c\", [d]]"),
    "flow-list-on-two-lines": _more("TS", "x: [a,\n  b]"),
    "flow-mapping-without-spaces": _more("S", 'x: {"a":1}'),
    "flow-mapping-without-values": _more("TS", "x: {a, b}"),
    "flow-mapping-without-a-value": _more("TS", "x: {a:}"),
    "flow-pair-in-a-list": _more("TS", "x: [a: b]"),
    "flow-that-does-not-end": _more("FTGS", "x: [a, b"),
    "quoted-on-one-line": _only("", 'name: demo\ndescription: "Does a \\u0074hing."'),
    "quoted-on-two-lines": _only("T", 'name: demo\ndescription: "Does\n  a thing."'),
    "single-quoted-on-two-lines": _only("T", "name: demo\ndescription: 'Does\n  a thing.'"),
    "quoted-with-an-unknown-escape": _only("FTGS", 'name: demo\ndescription: "Does \\d thing."'),
    "quoted-with-text-after": _only("FTGS", 'name: demo\ndescription: "Does" a thing.'),
    "quoted-with-a-comment-after": _only("", 'name: demo\ndescription: "Does a thing." # or two'),
    "quoted-half-of-an-emoji": _only("G", 'name: demo\ndescription: "Does \\ud83d thing."'),
    "plain-on-two-lines": _only("", "name: demo\ndescription: Does\n  a thing."),
    "plain-below-its-key": _only("", "name: demo\ndescription:\n  Does a thing."),
    "plain-with-a-comment-inside": _only("FTGS", "name: demo\ndescription: Does # or not\n  a thing."),
    "block": _only("", "name: demo\ndescription: >-\n  Does\n  a thing."),
    "block-with-an-indicator": _only("T", "name: demo\ndescription: |2\n    Does a thing."),
    "block-after-wider-blanks": _only("FTGS", "name: demo\ndescription: |\n      \n  Does a thing."),
    "block-with-a-tab": _only("G", "name: demo\ndescription: |\n  \tDoes a thing."),
    "empty-block": _only("FTGS", "name: demo\ndescription: |"),
    "comments": _only("", "# one\nname: demo # two\n  # three\n\ndescription: Does a thing.\n# four"),
    "fields-that-are-indented": _only("", "  name: demo\n  description: Does a thing."),
    "fields-indented-unlike": _only("FTGS", "  name: demo\n description: Does a thing."),
    "tab-as-indentation": _more("FTGS", "metadata:\n\tauthor: me"),
    "tab-after-the-colon": _only("FS", "name:\tdemo\ndescription: Does a thing."),
    "space-before-the-colon": _only("", "name : demo\ndescription: Does a thing."),
    "no-space-after-the-colon": _only("FTGS", "name:demo\ndescription: Does a thing."),
    "quoted-key": _only("", "\"name\": demo\n'description': Does a thing."),
    "quoted-key-and-a-space": _only("T", '"name" : demo\ndescription: Does a thing.'),
    "key-with-a-question-mark": _only("T", "? name\n: demo\ndescription: Does a thing."),
    "key-that-begins-with-a-question-mark": _more("TS", "?x: a"),
    "key-that-comes-twice": _more("FTGS", "license: MIT\nlicense: MIT"),
    "key-that-comes-twice-inside": _more("FTGS", "metadata:\n  a: b\n  a: c"),
    "key-that-is-a-number": _more("FTS", "1: a"),
    "key-that-is-a-number-inside": _more("FTG", "metadata:\n  1: a"),
    "key-that-is-a-boolean": _more("FTS", "true: a"),
    "key-that-is-on": _more("FS", "on: a"),
    "key-that-is-null-inside": _more("FTG", "metadata:\n  ~: a"),
    "key-that-is-proto": _more("TS", "__proto__: a"),
    "key-that-merges": _more("F", "<<:\n  a: b\nlicense: MIT"),
    "key-that-merges-text": _more("FGS", "metadata:\n  <<: a"),
    "anchor": _more("TS", "license: &a MIT"),
    "anchor-that-comes-twice": _more("FTS", "license: &a MIT\ncompatibility: &a All."),
    "alias": _more("FTS", "license: &a MIT\ncompatibility: *a"),
    "alias-of-a-list": _more("FTS", "x: &a [1]\ny: *a"),
    "alias-of-nothing": _more("FTGS", "license: *a"),
    "alias-of-itself": _more("FTGS", "x: &a [*a]"),
    "tag-of-text": _more("TS", "license: !!str 2.0"),
    "tag-of-a-number": _more("TS", "x: !!int 2"),
    "tag-that-does-not-fit": _more("FTGS", "x: !!int two"),
    "tag-that-does-not-fit-a-boolean": _more("FTGS", "x: !!bool maybe"),
    "tag-of-a-set": _more("FTS", "x: !!set {a: null}"),
    "tag-of-its-own": _more("FTS", "license: !mine MIT"),
    "tag-of-nothing": _more("TS", "license: ! MIT"),
    "tag-on-a-list": _more("FTS", "x: !mine\n  - a"),
    "list-at-the-key's-column": _more("S", "x:\n- a\n- b: c\n  d: e"),
    "list-as-a-whole": _only("FTGS", "- name: demo\n- description: Does a thing."),
    "text-as-a-whole": _only("FTGS", "name"),
    "mappings-indented-unlike": _more("S", "x:\n  a: b\ny:\n    a: b"),
    "mappings-indented-unlike-in-metadata": _more("FTGS", "metadata:\n  x:\n      a: b\n  y:\n    a: b"),
    "value-that-begins-with-an-at": _more("FTGS", "license: @me"),
    "value-that-begins-with-a-percent": _more("FTGS", "license: %me"),
    "value-that-is-a-dash": _more("FTGS", "license: - MIT"),
    "control-character": _more("FGS", "license: M\x07T"),
    "unicode-line-end": _more("TS", "license: MIT\u2028compatibility: All."),
    "nested-32-deep": _more("S", f"x: {'[' * 32}{']' * 32}"),
    "nested-33-deep": _more("TS", f"x: {'[' * 33}{']' * 33}"),
}
_EMPTY = {f"file-{number}": 0 for number in range(511)}
_REST = 16 * 2**20 - len(f"---\n{_HEAD}---\n")
_FILES = {
    "other-files": _with("", {"scripts/run.py": 1, "references/a b.md": 2}),
    "hidden-files": _with("", {".DS_Store": 1, ".git/config": 1}),
    "build-leftovers": _with("", {"node_modules/x/index.js": 1, "__pycache__/x.pyc": 1}),
    "link-to-a-file": _with("FTG", links={"b.md": "SKILL.md"}),
    "link-to-elsewhere": _with("FTG", links={"b.md": "../../elsewhere.md"}),
    "link-to-a-directory": _with("FTG", links={"sub": "."}),
    "link-to-nothing": _with("FTG", links={"b.md": "nowhere"}),
    "fifo": _with("FTG", fifos=("pipe",)),
    "512-files": _with("", _EMPTY),
    "513-files": _with("FG", {**_EMPTY, "one-more": 0}),
    "512-files-and-a-hidden-one": _with("FG", {**_EMPTY, ".hidden": 0}),
    "16-mebibytes": _with("", {"big": _REST}),
    "one-byte-more": _with("FG", {"big": _REST + 1}),
    "file-with-a-backslash": _with("F", {"a\\b.md": 1}),
    "file-that-looks-like-a-drive": _with("F", {"c:notes.md": 1}),
    "file-below-what-looks-like-a-drive": _with("", {"sub/c:notes.md": 1}),
    "file-called-manifest": _with("F", {"_manifest": 1}),
    "file-called-manifest-below": _with("", {"sub/_manifest": 1}),
    "file-called-manifest-in-an-inner-skill": _with("F", {"inner/SKILL.md": _INNER, "inner/_manifest": 1}),
    "files-with-odd-names": _with(
        "", {"100%.md": 1, "a#b?.md": 1, "日本.md": 1, "a+b&c.md": 1, "{x}.md": 1, "[y].md": 1}
    ),
    "skill-below-directories": _with("", skill="acme/billing/demo"),
    "skill-below-a-directory-with-a-space": _with("G", skill="my skills/demo"),
    "skill-below-what-looks-like-a-drive": _with("FG", skill="c:80/demo"),
    "skill-in-a-skill": _with("", {"inner/SKILL.md": _INNER}),
}
CASES = _DELIMITERS | _FIELDS | _YAML | _FILES
