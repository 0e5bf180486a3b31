"""`skillquay approve`, `deny`, `revoke`, `enable` and `disable`: what a person decides of their own accord (A1-A5)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from skillquay.cli.hosting import Place, agree, can_ask, find_all, run_host, write_json
from skillquay.cli.messages import fail, plural
from skillquay.cli.output import Screen
from skillquay.core.approvals import Answer, Grant, requested_tools
from skillquay.core.hidden import visible
from skillquay.core.identity import SkillId
from skillquay.core.questions import About, Reply
from skillquay.host.approver import CallbackApprover
from skillquay.host.directory import State
from skillquay.host.terminal import TerminalApprover

if TYPE_CHECKING:
    from skillquay.core.entries import SkillEntry
    from skillquay.core.questions import Question
    from skillquay.host.host import SkillHost

__all__ = ["run_approve", "run_approve_server", "run_deny", "run_revoke", "run_switch"]

_NOBODY = "there is nobody to ask: this is not a terminal. Look at what you approve with {look}, then add --yes."
_WHAT = {
    About.LOAD: "loading it",
    About.EXECUTE: "running code while it is in use",
    About.TOOLS: "the tools it asks for",
}


@dataclass(slots=True)
class _Outcome:
    """What became of each thing that was asked for."""

    place: Place
    items: list[dict[str, str | None]] = field(default_factory=list)
    status: int = 0

    def tell(self, name: str, grant: str, answer: str | None, sentence: str) -> None:
        """One answer; `answer` is None where there is none, and that is a no."""
        self.items.append({"name": name, "grant": grant, "answer": answer, "message": sentence})
        self.status = self.status or (1 if answer is None else 0)
        if not self.place.as_json:
            Screen().line(visible(sentence))

    def close(self) -> int:
        """The exit status, after the whole was written for machines."""
        if self.place.as_json:
            write_json({"answers": self.items})
        return self.status


def run_approve(place: Place, names: list[str], *, execute: bool, tools: bool, yes: bool) -> int:
    """Approve skills one by one; 1 when one of them was not."""
    if not yes and not can_ask(place):
        return fail(_NOBODY.format(look='"skillquay show NAME"'))
    about = [About.LOAD, *[About.EXECUTE] * execute, *[About.TOOLS] * tools]
    return run_host(place, partial(_approve, place=place, names=names, about=about, yes=yes))


def run_approve_server(place: Place, label: str, *, yes: bool) -> int:
    """Approve all that a server lists and that can be approved; 1 when some of it was not."""
    if not yes and not can_ask(place):
        return fail(_NOBODY.format(look='"skillquay skills"'))
    approver = CallbackApprover(lambda _: Reply.KEEP) if yes else TerminalApprover()
    return run_host(place, partial(_approve_server, place=place, label=label), approver=approver)


def run_deny(place: Place, names: list[str]) -> int:
    """Keep that skills, as they are now, must not be loaded; 1 when that cannot be kept."""
    return run_host(place, partial(_deny, place=place, names=names))


def run_revoke(place: Place, names: list[str]) -> int:
    """Take back what was answered; 1 when nothing stood. The servers are not needed for it."""
    return run_host(place, partial(_revoke, place=place, names=names), ask_servers=False)


def run_switch(place: Place, names: list[str], server: str | None, *, on: bool) -> int:
    """Enable or disable skills, or whole servers."""
    servers = [] if server is None else [server]
    if not names and not servers:
        return fail("name skills or servers, or one server with --server.")
    return run_host(place, partial(_switch, place=place, names=names, servers=servers, on=on))


async def _approve(host: SkillHost, *, place: Place, names: list[str], about: list[About], yes: bool) -> int:
    skills = await find_all(host, names)  # one wrong name, and nothing is approved
    questions = [await host.people.question(skill.name) for skill in skills]
    outcome = _Outcome(place)
    for skill, question in zip(skills, questions, strict=True):
        if question.entry.pairs is None:
            outcome.tell(skill.name, Grant.LOAD, None, _not_kept(skill.name, question.entry))
            continue
        if not yes:
            for line in question.lines():
                Screen().hanging(line, 16)
        for each in about:
            if not await _approve_one(host, outcome, skill.name, replace(question, about=each), yes=yes):
                break
        if skill.state is State.DISABLED and not place.as_json:
            Screen().line(f'"{skill.name}" stays disabled. Enable it with "skillquay enable {skill.name}".')
    return outcome.close()


async def _approve_one(host: SkillHost, outcome: _Outcome, name: str, question: Question, *, yes: bool) -> bool:
    """Ask for one grant and keep it, bound to the very entry that was shown (A1)."""
    grant = Grant(question.about)
    what = _WHAT[question.about]
    if question.about is About.TOOLS and not requested_tools(question.entry):
        outcome.tell(name, grant, None, f'"{name}" asks for no tools; there is nothing to grant.')
        return False
    standing = await host.consent.approval(question.skill, grant)
    if standing is not None and standing.answer is Answer.ALLOW and standing.covers(question.entry):
        outcome.tell(name, grant, "allow", f'Approved before for "{name}": {what}.')
        return True
    if not yes and not await agree(f'Approve for "{name}": {what}?'):
        outcome.tell(name, grant, None, f'Not approved for "{name}": {what}.')
        return False
    await host.people.keep(question, Answer.ALLOW)
    outcome.tell(name, grant, "allow", f'Approved for "{name}", until its content changes: {what}.')
    return True


async def _approve_server(host: SkillHost, *, place: Place, label: str) -> int:
    server = host.server_named(label)
    if server.problems and not server.skills:
        return fail(server.problems[0].message)
    replies = await host.people.ask_about_server(label)
    outcome = _Outcome(place)
    for skill in host.skills:
        if not isinstance(skill.identity, SkillId) or skill.identity.server != server.label:
            continue
        name, reason = skill.name, "" if skill.state in {State.NEW, State.CHANGED} else f": it is {skill.state}"
        if skill.state is State.APPROVED:
            sentence = "is approved, until its content changes." if name in replies else "was approved before."
            outcome.tell(name, Grant.LOAD, "allow", f'"{name}" {sentence}')
        elif skill.state in {State.DYNAMIC, State.UNPROVEN} and skill.entry is not None:
            outcome.tell(name, Grant.LOAD, None, _not_kept(name, skill.entry))
        else:
            outcome.tell(name, Grant.LOAD, None, f'"{name}" was not approved{reason}.')
    if not outcome.items and not place.as_json:
        Screen().line(f'The server "{label}" lists no skills.')
    return outcome.close()


def _not_kept(name: str, entry: SkillEntry) -> str:
    why = f"{_unproven(entry)}, so no answer can be kept. You are asked each time it is loaded."
    return f'"{name}" was not approved: {why}'


def _unproven(entry: SkillEntry) -> str:
    return "its content is generated anew each time" if entry.draft is None else str(entry.assurance)


async def _deny(host: SkillHost, *, place: Place, names: list[str]) -> int:
    skills = await find_all(host, names)
    outcome = _Outcome(place)
    for skill in skills:
        if skill.entry is None or skill.entry.pairs is None:
            why = "it is on your own disk" if skill.entry is None else _unproven(skill.entry)
            sentence = (
                f'A denial of "{skill.name}" cannot be kept: {why}. Use "skillquay disable {skill.name}" instead.'
            )
            outcome.tell(skill.name, Grant.LOAD, None, sentence)
        else:
            await host.people.answer(skill.name, About.LOAD, Answer.DENY)
            outcome.tell(skill.name, Grant.LOAD, "deny", f'"{skill.name}" is denied, until its content changes.')
    return outcome.close()


async def _revoke(host: SkillHost, *, place: Place, names: list[str]) -> int:
    skills = [await host.people.find_answered(name) for name in names]
    shown: list[dict[str, object]] = []
    for name, skill in zip(names, skills, strict=True):
        ended = await host.people.revoke(name)
        shown.append({"name": name, "server": skill.server.label, "uri": str(skill.uri), "ended": ended})
        if not place.as_json and ended:
            Screen().line(f"{plural(ended, 'answer')} about {skill} ended. You are asked again before it is loaded.")
        elif not place.as_json:
            Screen().line(f"No answer about {skill} stands.")
    if place.as_json:
        write_json({"revoked": shown})
    return 0 if all(each["ended"] for each in shown) else 1


async def _switch(host: SkillHost, *, place: Place, names: list[str], servers: list[str], on: bool) -> int:
    what = "enabled" if on else "disabled"
    shown = await host.people.switch_all(names, servers, on=on)
    if place.as_json:
        write_json({what: shown})
    else:
        for each in shown:
            Screen().line(f"The {each} is {what}.")
    return 0
