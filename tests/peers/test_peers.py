"""What `peer_refusals` foretells is what the real packages do: asked about every case, and about generated ones.

The packages are installed below `.peers` by `make peers`; no toolchain for the Go SDK is assumed, so it is not asked.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from skillquay.core.folders import SkillFolder
from skillquay.core.peers import Peer, PeerRefusal, peer_refusals
from skillquay.sources.directory import read_tree
from tests.peers.cases import CASES
from tests.peers.generated import skill_md

HERE = Path(__file__).parent
PEERS = HERE.parent.parent / ".peers"
GENERATED = 300
TIMEOUT = 240

pytestmark = pytest.mark.peers


def node() -> Path:
    own = PEERS / "fastmcp" / "bin" / "node"
    return own if own.exists() else Path(shutil.which("node") or own)


def commands(trees: Path) -> dict[Peer, list[str | Path]]:
    """How each peer is asked about the trees in a directory."""
    return {
        Peer.FASTMCP: [PEERS / "fastmcp" / "bin" / "python", HERE / "ask_fastmcp.py", trees],
        Peer.SKILLS_REF: [PEERS / "skills-ref" / "bin" / "python", HERE / "ask_skills_ref.py", trees],
        Peer.TYPESCRIPT: [node(), HERE / "ask_typescript.mjs", trees, PEERS / "node_modules"],
    }


def ask(trees: Path) -> dict[Peer, dict[str, str | None]]:
    """What each peer says about each skill: None when it takes it, else its reason. All are asked at once."""
    for needed in (*(Path(command[0]) for command in commands(trees).values()), PEERS / "node_modules"):
        if not needed.exists():
            pytest.fail(f'{needed} is missing, so the peers cannot be asked. Run "make peers" first.')
    with ThreadPoolExecutor() as pool:
        asked = pool.map(run, commands(trees).values())
        return dict(zip(commands(trees), asked, strict=True))


def run(command: list[str | Path]) -> dict[str, str | None]:
    environment = {"PATH": os.environ["PATH"]}
    done = subprocess.run(command, capture_output=True, timeout=TIMEOUT, env=environment, check=False)
    assert done.returncode == 0, f"{command[1]} failed: {done.stderr.decode()}"
    answers: dict[str, str | None] = json.loads(done.stdout)
    return answers


def foretell(trees: Path) -> dict[str, dict[Peer, PeerRefusal]]:
    foretold: dict[str, dict[Peer, PeerRefusal]] = {}
    for tree in sorted(trees.iterdir()):
        for folder in read_tree(str(tree)):
            if isinstance(folder, SkillFolder):
                skill = "/".join((tree.name, *folder.root.segments))
                foretold[skill] = {refusal.peer: refusal for refusal in peer_refusals(folder)}
    return foretold


def disagreements(trees: Path) -> list[str]:
    answers, foretold = ask(trees), foretell(trees)
    assert all(foretold.keys() <= said.keys() for said in answers.values())
    return [
        f"{skill}: {peer} {'takes' if answer is None else 'refuses'} it ({answer}); foretold: {refusals.get(peer)}"
        for peer, said in answers.items()
        for skill, answer in said.items()
        if (refusals := foretold.get(skill)) is not None and (answer is None) != (peer not in refusals)
    ]


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("cases")
    for name, case in CASES.items():
        case.write(root / name)
    return root


def test_the_peers_refuse_the_cases_that_are_foretold_and_take_the_others(trees: Path) -> None:
    assert disagreements(trees) == []


def test_what_is_foretold_of_each_case_is_what_the_table_says(trees: Path) -> None:
    foretold = foretell(trees)
    assert {name: set(foretold[f"{name}/{case.skill}"]) for name, case in CASES.items()} == {
        name: set(case.refused_by) for name, case in CASES.items()
    }


def test_each_peer_refuses_some_cases_and_takes_others() -> None:
    assert len(CASES) >= 60
    for peer in Peer:
        refusing = sum(peer in case.refused_by for case in CASES.values())
        assert 30 < refusing < len(CASES) - 30


def test_the_peers_refuse_the_generated_skills_that_are_foretold_and_take_the_others(tmp_path: Path) -> None:
    generated: dict[bytes, None] = {}

    @settings(
        max_examples=2 * GENERATED, derandomize=True, database=None, suppress_health_check=[*HealthCheck], deadline=None
    )
    @given(skill_md())
    def collect(data: bytes) -> None:
        generated[data] = None

    collect()
    chosen = list(generated)[:GENERATED]
    assert len(chosen) == GENERATED
    for number, data in enumerate(chosen):
        (tmp_path / f"{number:03}" / "demo").mkdir(parents=True)
        (tmp_path / f"{number:03}" / "demo" / "SKILL.md").write_bytes(data)
    assert disagreements(tmp_path) == []
    for peer in Peer:
        refusing = sum(peer in refusals for refusals in foretell(tmp_path).values())
        assert GENERATED / 10 < refusing < GENERATED * 9 / 10  # a generator that only ever fails would prove little


def test_without_the_peers_the_tests_fail_and_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.PEERS", tmp_path / "nowhere")
    with pytest.raises(pytest.fail.Exception, match="make peers"):
        ask(tmp_path)
