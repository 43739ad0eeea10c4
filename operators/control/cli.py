"""The `hailer` command: runs a job, and speaks to the one that runs in this directory."""

from __future__ import annotations

import json
import sys
import time
from argparse import REMAINDER, BooleanOptionalAction, Namespace, _SubParsersAction
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

from framework.errors import HailerError
from operators.admin.client import JobClient
from operators.admin.errors import BadRequest, JobEnded
from operators.admin.json_codec import from_json
from operators.admin.run_directory import how_it_ended
from operators.control.cli_parser import Parser
from operators.control.doctor import examine
from operators.control.job_control import JobControl
from operators.control.job_messages import Answer, ChangeState, Explanation, JobStatus
from operators.control.render import (
    answer_lines,
    change_line,
    change_summary,
    explain_page,
    status_page,
    unmoved_lines,
)
from operators.control.terminal import columns
from operators.job.job_file import load_job
from routing.migration.goals import STRATEGIES, GoalState, Pace

WATCH_S = 1.0
POLL_S = 0.1
CLEAR = "\x1b[H\x1b[2J"
ERASE = "\r\x1b[K"


def main() -> None:
    """Read the command line and do what it says."""
    flags = _parser().parse_args()
    act: Callable[[Namespace], int] = flags.act
    try:
        raise SystemExit(act(flags))
    except HailerError as error:
        print(f"hailer {flags.command}: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:
        sys.stderr.close()  # nobody reads: nothing to say, and nothing to complain about at exit
        raise SystemExit(141) from None


def run(flags: Namespace) -> int:
    """Load the job and hand it the rest of the command line."""
    job = load_job(Path(flags.file))
    sys.argv = [f"hailer run {flags.file}", *flags.arguments]
    job.main(control_plane=JobControl(job.name, Path.cwd(), prefix=flags.prefix, tells_end=True))
    return 0


def status(flags: Namespace) -> int:
    """Print how the job is, once or again and again."""
    client = JobClient.of(Path.cwd(), flags.job)
    while True:
        try:
            answer = client.get("status")
        except JobEnded as error:
            if not flags.watch:
                raise
            if not flags.json:
                ended = how_it_ended(*client.run) if client.run is not None else None
                print(f"\n{ended.report or ended.done if ended is not None else error}")
            return 0
        print(json.dumps(answer) if flags.json else _status_page(answer, watched=flags.watch), flush=True)
        if not flags.watch:
            return 0
        time.sleep(WATCH_S)


def _status_page(answer: dict[str, Any], *, watched: bool) -> str:
    """The page for the terminal that there is: one that is watched has to fit as a whole."""
    status = from_json(JobStatus, answer)
    if not sys.stdout.isatty():
        return status_page(status)
    columns, lines = get_terminal_size()
    return f"{CLEAR}{status_page(status, columns, lines - 1)}" if watched else status_page(status, columns)


def explain(flags: Namespace) -> int:
    """Print what holds a frontier back."""
    asked = {} if flags.operator is None else {"operator": flags.operator}
    answer = JobClient.of(Path.cwd(), flags.job).get("explain", **asked)
    print(json.dumps(answer) if flags.json else explain_page(from_json(Explanation, answer)))
    return 0


def move(flags: Namespace) -> int:
    """Give bins to a worker."""
    return _carry_out(flags, "move", {"bins": flags.bins, "to": flags.to})


def map_(flags: Namespace) -> int:
    """Give every bin the owner that a file names."""
    try:
        owners = json.loads(Path(flags.file).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadRequest(f"cannot read {flags.file}: {error.strerror}") from error
    except ValueError as error:
        raise BadRequest(f"{flags.file} is not JSON ({error}); write the owner of each bin: [0, 1, 0, 1]") from error
    return _carry_out(flags, "map", {"owners": owners})


def rebalance(flags: Namespace) -> int:
    """Spread the bins over the workers."""
    return _carry_out(flags, "rebalance", {})


def cancel(flags: Namespace) -> int:
    """End what moves bins."""
    goals = from_json(tuple[GoalState, ...], JobClient.of(Path.cwd(), flags.job).post("cancel", {}))
    for goal in goals:
        print(f"{goal.text} ends after this step: {goal.bins_moved} of {goal.bins} bins have moved")
    if not goals:
        print("the scale ends; processes that have started join")
    return 0


def scale(flags: Namespace) -> int:
    """Change the number of processes."""
    return _carry_out(flags, "scale", {"processes": flags.processes})


def leave(flags: Namespace) -> int:
    """Let a worker leave."""
    return _carry_out(flags, "leave", {"worker": flags.worker})


def finish(flags: Namespace) -> int:
    """End the inputs of a job that others feed."""
    client = JobClient.of(Path.cwd(), flags.job)
    client.post("finish", {})
    print(f"{client.name} takes nothing more, and ends when what came out has been read")
    return 0


def doctor(flags: Namespace) -> int:
    """Examine the machine."""
    bad = False
    for finding in examine(Path.cwd()):
        print(finding, flush=True)
        bad = bad or finding.mark == "bad"
    return int(bad)


def _carry_out(flags: Namespace, action: str, arguments: dict[str, Any]) -> int:
    """Ask for a change and, unless it is only to be shown, wait for its end."""
    client = JobClient.of(Path.cwd(), flags.job)
    options = {"strategy": flags.strategy, "gap_s": flags.gap, "dry_run": flags.dry_run}
    group = {"group": flags.group} if getattr(flags, "group", None) is not None else {}
    answer = from_json(Answer, client.post(action, {**arguments, **options, **group}))
    if unmoved := unmoved_lines(answer):
        print(unmoved, file=sys.stderr, flush=True)
    if answer.number is None:
        print(answer_lines(answer))
        return 0
    return _follow(client, answer.number, verbose=flags.verbose)


def _follow(client: JobClient, number: int, *, verbose: bool) -> int:
    """Show how a change is doing until it has ended. Ctrl-C ends it after the current step."""
    told, line, asked = 0, "", False
    while True:
        try:
            state = from_json(ChangeState, client.get("change", number=str(number)))
            for event, detail in zip(state.log[told:], state.details[told:], strict=True):
                shown = f"{event}: {detail}" if verbose and detail else event
                print(f"{ERASE * bool(line)}{shown}", flush=True)
                line = ""
            told = len(state.log)
            if state.finished:
                break
            line = _show_line(change_line(state, columns()), line)
            time.sleep(POLL_S)
        except KeyboardInterrupt:
            if asked:
                raise
            asked = True
            print("\nending after this step; Ctrl-C again leaves it to itself", file=sys.stderr, flush=True)
            with suppress(BadRequest):  # nothing moves: processes start, or leave
                client.post("cancel", {})
    _show_line("", line)
    print(change_summary(state))
    return 1 if state.failure or state.cancelled else 0


def _show_line(line: str, shown: str) -> str:
    """Replace the line that is shown on a terminal; what is shown then."""
    if line == shown or not sys.stderr.isatty():
        return shown
    print(f"{ERASE}{line}", end="", file=sys.stderr, flush=True)
    return line


def _parser() -> Parser:
    parser = Parser(
        prog="hailer",
        description="Stateful streaming jobs in Python.",
        epilog="example: hailer run wordcount_job.py -n 2 --input lines=book.txt, and while it runs: hailer status",
    )
    parser.add_argument("--version", action="version", version=f"hailer {version('hailer')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _add_run(commands)
    _add_looks(commands)
    _add_plans(commands)
    _add_scales(commands)
    examined = _add(commands, "doctor", doctor, "check what this machine and directory lack", "hailer doctor")
    examined.description = "Check Python, packages, Java, ports, limits and this directory; exit with 1 if any is bad."
    return parser


def _add_run(commands: _SubParsersAction[Parser]) -> None:
    parser = _add(
        commands,
        "run",
        run,
        "run a job on this machine",
        "hailer run wordcount_job.py -n 2 --input lines=book.txt; "
        "hailer run wordcount_job.py --help shows the job's flags",
    )
    parser.description = (
        "Run the job that a Python file defines, in processes of its own; everything behind the file is the job's own."
    )
    parser.add_argument(
        "--prefix",
        action=BooleanOptionalAction,
        default=None,
        help="begin each line of output with its worker (on a terminal, if there are several processes)",
    )
    parser.add_argument("file", metavar="JOB.py", help="a file with a Job in it")
    parser.add_argument("arguments", nargs=REMAINDER, metavar="...", help="flags of the job")


def _add_looks(commands: _SubParsersAction[Parser]) -> None:
    parser = _add(
        commands, "status", status, "how the job is: workers, operators, bins, plans", "hailer status --watch"
    )
    parser.add_argument("--watch", action="store_true", help="again every second, until Ctrl-C or the job's end")
    parser.add_argument("--json", action="store_true", help="as JSON, a line each time")
    _add_job(parser)
    parser = _add(commands, "explain", explain, "what holds a frontier back", "hailer explain; hailer explain counts")
    parser.add_argument(
        "operator", nargs="?", metavar="OPERATOR", help="an operator's name or path; the last one, unless given"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    _add_job(parser)


def _add_plans(commands: _SubParsersAction[Parser]) -> None:
    parser = _add(commands, "move", move, "give some bins to a worker", "hailer move 17 19 --to 0")
    parser.add_argument("bins", nargs="+", type=int, metavar="BIN", help="a bin's number")
    parser.add_argument("--to", type=int, required=True, metavar="W", help="the worker that shall own them")
    _add_group(parser)
    _add_pace(parser)
    parser = _add(commands, "map", map_, "give every bin the owner that a file names", "hailer map owners.json")
    parser.add_argument("file", metavar="FILE", help="a JSON list with the owner of each bin, bin 0 first")
    _add_group(parser)
    _add_pace(parser)
    parser = _add(
        commands,
        "rebalance",
        rebalance,
        "spread the bins over the workers",
        "hailer rebalance --strategy fluid --dry-run",
    )
    parser.description = (
        "Give each worker about the same share of the records and keys, and move as few bins as that takes. After "
        "`hailer scale` that is so already."
    )
    _add_pace(parser)
    parser = _add(commands, "cancel", cancel, "end what moves bins, after its current step", "hailer cancel")
    _add_job(parser)


def _add_scales(commands: _SubParsersAction[Parser]) -> None:
    parser = _add(commands, "scale", scale, "change the number of processes while the job runs", "hailer scale 4")
    parser.description = (
        "Start processes that join the job and give them their share of bins, or move the bins of some to the others "
        "and let them leave: those with the highest numbers first. The one that feeds the job stays."
    )
    parser.add_argument("processes", type=int, metavar="N", help="how many processes there shall be")
    _add_pace(parser)
    parser = _add(commands, "finish", finish, "end the inputs that Spark feeds (run --serve)", "hailer finish")
    parser.description = (
        "Let a job that Spark feeds end: it takes nothing more, goes through what it has, and stays until its outputs "
        "have been read."
    )
    _add_job(parser)
    parser = _add(commands, "leave", leave, "let a worker leave the job", "hailer leave 2")
    parser.description = "Move a worker's bins to the others and let it leave, with all other workers of its process."
    parser.add_argument("worker", type=int, metavar="W", help="a worker's number, as in `hailer status`")
    _add_pace(parser)


def _add(
    commands: _SubParsersAction[Parser], name: str, act: Callable[[Namespace], int], help: str, example: str
) -> Parser:
    description = f"{help[0].upper()}{help[1:]}."
    parser = commands.add_parser(name, help=help, description=description, epilog=f"example: {example}")
    parser.set_defaults(act=act, parser=parser)
    return parser


def _add_group(parser: Parser) -> None:
    parser.add_argument(
        "--group", metavar="NAME", help="which operators, if those of the job differ in their numbers of bins"
    )


def _add_pace(parser: Parser) -> None:
    parser.add_argument(
        "--strategy",
        choices=list(STRATEGIES),
        default=Pace().strategy,
        help="how the moves are cut into steps (paced: by how long the last step was felt)",
    )
    parser.add_argument("--gap", type=float, default=0.0, metavar="S", help="seconds between steps (0)")
    parser.add_argument("--dry-run", action="store_true", help="show what would move and do nothing")
    parser.add_argument("--verbose", action="store_true", help="say how long each part of a join takes")
    _add_job(parser)


def _add_job(parser: Parser) -> None:
    parser.add_argument("--job", metavar="NAME", help="which job, if several run in this directory")
