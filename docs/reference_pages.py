"""The pages of the reference as Markdown, from the signatures and docstrings of `rolin`."""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import griffe

DOCS = Path(__file__).resolve().parent
CONFIG = tomllib.loads((DOCS / "reference_pages.toml").read_text(encoding="utf-8"))
NOTICE = (
    "<!-- docs/build.py wrote this page from the docstrings: edit them, then run `make docs`. -->"
)
WIDTH = 88
PARAGRAPH = re.compile(r"^```.*?^```|(?:^[^\n]*\S[^\n]*\n?)+", re.MULTILINE | re.DOTALL)
SENTENCE_END = re.compile(r"(?<=[a-z\d)`”\"*][.!?])\s+(?=[A-Z`\"“(*])")
CROSS_REFERENCE = re.compile(r"\[([^\]]+)\]\[(rolin[\w.]*)\]")


class Entry(NamedTuple):
    """A class, a function or a type alias of the reference."""

    name: str
    page: str
    section: str
    object: Any


class Reference:
    """All entries of the reference, and their pages."""

    def __init__(self) -> None:
        source = DOCS.parent / "src"
        self.package = griffe.load(
            "rolin",
            search_paths=[source],
            docstring_parser="numpy",
            extensions=griffe.load_extensions(str(DOCS / "hooks/shared_options.py")),
        )
        self.entries = list(self._entries())
        # definitions, by their path in the source, and their names in the reference
        self.names = {entry.object.path: entry.name for entry in self.entries}
        self.pages = {entry.name: entry.page for entry in self.entries}
        for entry in self.entries:
            for member in self.members(entry.object):
                name = f"{entry.name}.{member.name}"
                self.names.setdefault(member.canonical_path, name)
                self.pages[name] = entry.page

    def find(self, name: str) -> Any:
        """Return the definition of a name."""
        found = self.package[name.removeprefix("rolin.")]
        return found.final_target if found.is_alias else found

    def _entries(self) -> Iterator[Entry]:
        wanted = [
            (page, section, name)
            for page, config in CONFIG["pages"].items()
            for section, names in config["sections"].items()
            for name in names
        ]
        listed = {self.find(name).path for *_, name in wanted if not name.endswith(".*")}
        for page, section, name in wanted:
            if not name.endswith(".*"):
                yield Entry(name, page, section, self.find(name))
                continue
            for one in sorted(self.find(name[:-2]).exports, key=str.lower):
                definition = self.find(name[:-1] + one)
                if definition.path not in listed:
                    yield Entry(name[:-1] + one, page, section, definition)

    def bases(self, thing: Any) -> list[Any]:
        """Return the base classes of a class that have entries."""
        return [base for base in thing.mro() if base.path in self.names] if thing.is_class else []

    def members(self, thing: Any) -> list[Any]:
        """Return the public attributes and methods that are described with a class."""
        if not thing.is_class:
            return []
        hidden = {
            name
            for module, names in CONFIG["hidden"].items()
            if f"{thing.module.path}.".startswith(f"{module}.")
            for name in names
        }
        hidden |= {item.name for item in items(thing, "parameters")}
        return [
            member
            for name, member in {**thing.members, **thing.inherited_members}.items()
            if not name.startswith("_")
            and not hidden & {name, "*"}
            and (member.is_function or is_field(member))
            and not any(repeats(member, base) for base in self.bases(thing))
        ]

    def link(self, text: str, path: str, page: str) -> str:
        """Return a link to an entry or a member."""
        try:
            name = self.names[self.package[path.removeprefix("rolin.")].canonical_path]
        except KeyError:
            raise SystemExit(f"{page}.md: reference to {path}, which has no entry") from None
        return f"[{text}]({'' if self.pages[name] == page else self.pages[name] + '.md'}#{name})"

    def write(self, page: str) -> str:
        """Return a page."""
        config = CONFIG["pages"][page]
        writer = Writer(self, page)
        blocks = [f"# {config['title']}", config["about"], f"Extras: {config['extras']}"]
        if "module" in config:
            text = self.find(config["module"]).docstring.value
            blocks.append(writer.prose(text.partition("\n")[2]))
        for section in config["sections"]:
            blocks.append(f"## {section}")
            for entry in self.entries:
                if (entry.page, entry.section) == (page, section):
                    blocks += writer.entry(entry)
        return "\n\n".join([NOTICE, *blocks, *writer.types()]) + "\n"

    def index(self) -> str:
        """Return the page that lists all others."""
        about = "Every public name of `rolin`, by page."
        blocks = ["# Reference", about, "Extras: each page says which ones it needs."]
        for page, config in CONFIG["pages"].items():
            entries = [entry for entry in self.entries if entry.page == page]
            links = [self.link(f"`{entry.name}`", entry.name, "index") for entry in entries]
            blocks += [
                f"## [{config['title']}]({page}.md)",
                config["about"],
                ",\n".join(links) + ".",
            ]
        return "\n\n".join([NOTICE, *blocks]) + "\n"


class Writer:
    """Turns entries into Markdown, and notes the type aliases that their signatures use."""

    def __init__(self, reference: Reference, page: str) -> None:
        self.reference = reference
        self.page = page
        self.aliases: dict[str, Any] = {}

    def link(self, text: str, path: str) -> str:
        """Return a link from this page."""
        return self.reference.link(text, path, self.page)

    def prose(self, text: str) -> str:
        """Return the paragraphs of a docstring with one sentence per line and with links."""
        blocks: list[str] = []
        for block in PARAGRAPH.findall(text.strip("\n")):
            if block.startswith(">>>"):
                if blocks and blocks[-1].startswith("```pycon"):  # one block, with an empty line
                    block = (
                        blocks.pop().removeprefix("```pycon\n").removesuffix("```") + "\n" + block
                    )
                blocks.append(f"```pycon\n{block.rstrip()}\n```")
            elif block.startswith("    "):
                blocks.append(f"```text\n{textwrap.dedent(block).rstrip()}\n```")
            elif block.startswith(("```", "- ", "|")):
                blocks.append(block.rstrip())
            else:
                text = SENTENCE_END.sub("\n", " ".join(block.split()))
                blocks.append(CROSS_REFERENCE.sub(lambda found: self.link(*found.groups()), text))
        return "\n\n".join(blocks)

    def item(self, head: str, text: str) -> str:
        """Return an item of a list: its head, which ends in a colon, and the text below it."""
        if not text:
            return f"- {head.removesuffix(':')}"
        return f"- {head}\n{textwrap.indent(self.prose(text), '    ')}"

    def docstring(self, thing: Any) -> Iterator[str]:
        """Yield the sections of a docstring."""
        for section in thing.docstring.parsed if thing.docstring else []:
            kind, value = section.kind.value, section.value
            if kind == "text":
                yield self.prose(value)
            elif kind == "examples":
                yield "**Examples**"
                yield self.prose("\n\n".join(text for _, text in value))
            elif kind == "admonition":
                yield f"**{section.title}**"
                yield self.prose(value.contents)
            else:
                yield f"**{kind.capitalize()}**"
                yield "\n".join(
                    self.item(self.head(kind, item), item.description) for item in value
                )

    def head(self, kind: str, item: Any) -> str:
        """Return the name, type and default of an item of a docstring."""
        if kind in ("raises", "warns"):
            error = str(item.annotation)
            is_own = error in self.reference.find("rolin.errors").exports
            return (
                self.link(f"`{error}`", f"rolin.errors.{error}") + ":" if is_own else f"`{error}`:"
            )
        name, kind = getattr(item, "name", ""), f"`{item.annotation}`" if item.annotation else ""
        default = getattr(item, "default", None)
        if default and default != "{}":  # which griffe says of **options
            kind += f", default `{default}`"
        return (
            f"**`{name}`** ({kind}):" if name and kind else f"**`{name}`**:" if name else f"{kind}:"
        )

    def entry(self, entry: Entry) -> Iterator[str]:
        """Yield the blocks of an entry."""
        thing, short = entry.object, entry.name.rpartition(".")[2]
        members, bases = self.reference.members(thing), self.reference.bases(thing)
        yield f'<a id="{entry.name}"></a>\n\n### {short}'
        yield self.code(entry.name, thing)
        if bases:
            yield f"Base class: {self.link(f'`{bases[0].name}`', bases[0].path)}."
        yield from self.docstring(thing)
        if fields := [member for member in members if not member.is_function]:
            yield "**Attributes**"
            yield "\n".join(self.field(entry.name, field) for field in fields)
        seen = {member.name for member in members}
        for base in bases:
            inherited = [m.name for m in self.reference.members(base) if m.name not in seen]
            links = [self.link(f"`{name}`", f"{base.path}.{name}") for name in inherited]
            if links:
                yield f"Inherited from {self.link(f'`{base.name}`', base.path)}: {', '.join(links)}."
            seen.update(inherited)
        for method in members:
            if method.is_function:
                yield f'<a id="{entry.name}.{method.name}"></a>\n\n#### {short}.{method.name}'
                owner = f"{short}." if "classmethod" in method.labels else ""
                yield self.code(owner + method.name, method)
                yield from self.docstring(method)

    def field(self, owner: str, field: Any) -> str:
        """Return an attribute as an item of a list."""
        self.note(field.annotation)
        head = f'<a id="{owner}.{field.name}"></a>{self.head("attributes", field)}'
        return self.item(head, field.docstring.value if field.docstring else "")

    def code(self, name: str, thing: Any) -> str:
        """Return how a thing is called, as a code block."""
        if thing.is_attribute:
            text = f"{name} = {thing.value}"
            self.note(thing.value)
        elif thing.is_class and not (items(thing, "parameters") and list(thing.parameters)):
            text = f"class {name}"
        else:
            text = signature(name, thing)
            for part in (*thing.parameters, thing):
                self.note(getattr(part, "annotation", None))
        return f"```python\n{text}\n```"

    def note(self, annotation: Any) -> None:
        """Note the type aliases of an annotation, and those that they are made of."""
        annotation = result_type(annotation)
        if not isinstance(annotation, griffe.Expr):
            return
        for name in annotation.iterate(flat=True):
            path = getattr(name, "canonical_path", "")
            if path.startswith("rolin.") and path not in self.reference.names:
                alias = self.reference.find(path)
                is_alias = alias.is_attribute and "TypeVar(" not in str(alias.value)
                if is_alias and str(name) not in self.aliases:
                    self.aliases[str(name)] = alias
                    self.note(alias.value)

    def types(self) -> Iterator[str]:
        """Yield the section that explains type aliases."""
        if self.aliases:
            yield "## Types\n\nThe signatures of this page use these names for types."
            yield "\n".join(
                self.item(
                    f"**`{name}`** = `{alias.value}`:",
                    alias.docstring.value if alias.docstring else "",
                )
                for name, alias in sorted(self.aliases.items())
            )


def result_type(annotation: Any) -> Any:
    """Return the type that callers get: a call of the client is written as a flow of requests that has a result."""
    is_flow = isinstance(annotation, griffe.ExprSubscript) and str(annotation.left) == "Flow"
    return annotation.slice if is_flow else annotation


def items(thing: Any, kind: str) -> list[Any]:
    """Return the items of a section of a docstring."""
    parsed = thing.docstring.parsed if thing.docstring else []
    return [item for section in parsed if section.kind.value == kind for item in section.value]


def is_field(member: Any) -> bool:
    """Return whether a member is a documented attribute, or a field of a data class or named tuple."""
    if not member.is_attribute or str(member.annotation).startswith("ClassVar"):
        return False
    is_tuple = "NamedTuple" in [str(base) for base in member.parent.bases]
    return bool(member.docstring) or is_tuple or "dataclass" in member.parent.labels


def repeats(member: Any, base: Any) -> bool:
    """Return whether a base class has the same member, or one that says the same."""
    its = base.all_members.get(member.name)
    if its is None or its.canonical_path == member.canonical_path:
        return its is not None
    texts = [one.docstring.value if one.docstring else "" for one in (member, its)]
    kinds = [
        signature("", one) if one.is_function else str(one.annotation) for one in (member, its)
    ]
    return texts[0] in ("", texts[1]) and kinds[0] == kinds[1]


def signature(name: str, function: Any) -> str:
    """Return a call with its annotations, on one line or with one parameter per line."""
    words = []
    for parameter in function.parameters:
        if parameter.name in ("self", "cls"):
            continue
        kind = parameter.kind.value
        if kind == "keyword-only" and not any(word.startswith("*") for word in words):
            words.append("*")
        stars = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "")
        word = f"{stars}{parameter.name}"
        word += f": {parameter.annotation}" if parameter.annotation is not None else ""
        if parameter.default is not None and not stars:
            word += f" = {parameter.default}"
        words.append(word)
    returns = None if function.is_class else function.returns
    end = f") -> {result_type(returns)}" if returns is not None else ")"
    line = f"{name}({', '.join(words)}{end}"
    if len(line) <= WIDTH:
        return line
    lines = [
        textwrap.fill(f"{word},", WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8)
        for word in words
    ]
    return "\n".join([f"{name}(", *lines, end])
