"""The table of options, command lines and directives."""

from pathlib import Path

import pytest

from cress.cli.job_options import starts_as_script
from cress.cli.slurm.batch import directives
from cress.cli.slurm.common import FOLDER, site
from cress.cli.slurm.install import MARK, installed
from cress.cli.slurm.nodes import letters
from cress.model.errors import InputError
from cress.slurm.command_line import notes, parse, refused, without_components
from cress.slurm.option_table import SBATCH, STEP, Fate, table
from cress.slurm.pbs import pbs_table, pbs_words
from cress.slurm.script import begins_script, read_script
from cress.slurm.sites import Site

PAGE = (Path(__file__).parents[2] / "docs" / "slurm.md").read_text(encoding="utf-8")


def given(*words: str) -> dict[str, str]:
    found, _ = parse(words, SBATCH)
    return {one.option.name: one.value for one in found}


def test_every_spelling_of_an_option() -> None:
    for words in (("-N2",), ("-N", "2"), ("--nodes=2",), ("--nodes", "2")):
        assert given(*words) == {"nodes": "2"}, words
    assert given("--parti=gpu") == {"partition": "gpu"}
    assert given("--mem_per_cpu=1G") == {"mem-per-cpu": "1G"}
    assert given("-WHn4") == {"wait": "", "hold": "", "ntasks": "4"}
    assert given("--exclusive", "--exclusive=user") == {"exclusive": "user"}


def test_mpirun_of_openmpi_5_and_of_mpich_start_their_daemons_with_known_options() -> None:
    openmpi = "--external-launcher --ntasks-per-node=1 --kill-on-bad-exit --mpi=none --cpu-bind=none prted -x"
    mpich = "-N 2 -n 2 --nodelist n1,n2 --input none hydra_pmi_proxy --rmk slurm"
    for words, program in ((openmpi.split(), "prted"), (mpich.split(), "hydra_pmi_proxy")):
        found, rest = parse(words, STEP)
        assert rest[0] == program
        assert refused(found) == []


def test_options_end_at_the_script() -> None:
    found, rest = parse(["-n", "4", "run.sh", "-n", "7", "--", "x"], SBATCH)
    assert [one.value for one in found] == ["4"]
    assert rest == ["run.sh", "-n", "7", "--", "x"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tmie=1"], "unknown option --tmie (did you mean --time?)"),
        (["--ntasks-per"], "--ntasks-per is ambiguous (one of"),
        (["-n"], "--ntasks: needs a value (--ntasks=VALUE)"),
        (["--hold=no"], "--hold: takes no value (--hold)"),
        (["-y"], "unknown option -y"),
    ],
)
def test_wrong_options_say_what_would_be_right(words: list[str], message: str) -> None:
    with pytest.raises(InputError) as error:
        parse(words, SBATCH)
    assert message in str(error.value)


def test_no_option_stands_twice_in_a_table() -> None:
    for rows in (SBATCH, STEP):
        names = [row.name for row in rows]
        letters = [row.short for row in rows if row.short]
        assert len(set(names)) == len(names)
        assert len(set(letters)) == len(letters)


def test_what_is_passed_over_gives_a_note_with_its_place_and_what_is_refused_an_error() -> None:
    found, _ = parse(["--mail-type=END", "--bb=x"], SBATCH, file="run.sh", line=3)
    assert notes(found) == ["run.sh:3: --mail-type is passed over: `cress events --follow` reports the end"]
    assert [str(error) for error in refused(found)] == [
        "run.sh:3: --bb: is not supported (there are no burst buffers: copy with `files:` and `outputs:` of a job file)"
    ]


def test_the_page_has_every_option() -> None:
    for fate in Fate:
        assert table(SBATCH, fate) in PAGE, fate
    assert pbs_table() in PAGE


SCRIPT = """\
#!/bin/bash -l
#
# A comment, then directives.
#SBATCH --job-name="my job"   # of the week
#SBATCH -N 2 -t 1-00
##SBATCH --hold

#SBATCH --mem=4G
module load gcc
#SBATCH --nodes=9
srun ./a.out
"""


def test_directives_stand_before_the_first_command() -> None:
    found = directives(read_script(SCRIPT, "run.sh"), "run.sh")
    assert [(one.option.name, one.value, one.line) for one in found] == [
        ("job-name", "my job", 4),
        ("nodes", "2", 5),
        ("time", "1-00", 5),
        ("mem", "4G", 8),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("#SBATCH --tmie=1:00", "run.sh:2: unknown option --tmie (did you mean --time?)"),
        (
            "#SBATCH time=1:00",
            "run.sh:2: 'time=1:00' is not an option (--NAME=VALUE; a value with spaces needs quotes)",
        ),
        ('#SBATCH -J "x', "run.sh:2: has a quotation mark without its pair"),
        ("#PBS -Z 3", "run.sh:2: unknown option -Z"),
        ("#PBS -l walltme=3", "run.sh:2: -l: unknown resource 'walltme'"),
        ("#PBS -S /bin/bash", "run.sh:2: -S names another interpreter than the first line, #!/bin/sh (the same in"),
        ("#SBATCH hetjob", "run.sh:2: heterogeneous jobs are not supported (a job file with `parts:`"),
        ("#SBATCH -n 1 : -n 2", "run.sh:2: heterogeneous jobs are not supported (a job file with `parts:`"),
    ],
)
def test_a_wrong_directive_names_file_and_line(line: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        directives(read_script(f"#!/bin/sh\n{line}\n", "run.sh"), "run.sh")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("echo hello\n", "names no interpreter"),
        ("#!/bin/sh\r\necho\r\n", "line ends of DOS"),
        ("", "names no interpreter"),
        ("# x\n#SBATCH -n 2\n", "names no interpreter"),
    ],
)
def test_what_is_no_script_is_refused_as_by_slurm(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_script(text, "run.sh")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-N", "job1"], ["--job-name=job1"]),
        (["-l", "walltime=01:00:00,mem=4gb"], ["--time=01:00:00", "--mem=4G"]),
        (["-l", "walltime=90"], ["--time=0:01:30"]),
        (["-l", "walltime=10:00"], ["--time=0:10:00"]),
        (["-lnodes=2:ppn=8"], ["--nodes=2", "--ntasks-per-node=8"]),
        (
            ["-l", "select=2:ncpus=8:mpiprocs=4:mem=16gb"],
            ["--nodes=2", "--ntasks-per-node=4", "--mem=16G", "--cpus-per-task=2", "--pbs-threads=2"],
        ),
        (["-W", "depend=afterok:12.server:13"], ["--dependency=afterok:12:13"]),
        (["-j", "oe", "-m", "abe", "-V"], ["--mail-type=NONE", "--export=ALL"]),
        (["-J", "1-10"], ["--array=1-10"]),
        (["-S", "/bin/bash", "-a", "202612010830.00"], ["--begin=2026-12-01T08:30"]),
        (["-a", "0830"], ["--begin=08:30"]),
        (["-a", "12310830"], ["--begin=12/31-08:30"]),
        (["-a", "2612310830"], ["--begin=2026-12-31T08:30"]),
        (["-l", "nodes=1:ppn=8,pmem=2gb"], ["--nodes=1", "--ntasks-per-node=8", "--mem-per-cpu=2G"]),
        (["-l", "nodes=1:ppn=2:bigmem:gen2"], ["--nodes=1", "--constraint=bigmem&gen2", "--ntasks-per-node=2"]),
        (["-l", "nodes=n7:ppn=2"], ["--nodes=1", "--nodelist=n7", "--ntasks-per-node=2"]),
        (
            ["-l", "select=ncpus=4:ompthreads=2:host=n7"],
            ["--nodes=1", "--nodelist=n7", "--cpus-per-task=4", "--pbs-threads=2"],
        ),
        (
            ["-l", "select=1:ncpus=16:mpiprocs=16"],
            ["--nodes=1", "--ntasks-per-node=16", "--cpus-per-task=1", "--pbs-threads=1"],
        ),
        (["-l", "nodes=2:ncpus=8:mem=4gb"], ["--nodes=2", "--mem=4G", "--cpus-per-task=8"]),
        (["-l", "nodes=2:ncpus=8:mpiprocs=8"], ["--nodes=2", "--ntasks-per-node=8", "--cpus-per-task=1"]),
        (["-l", "procs=16"], ["--ntasks=16"]),
        (["-o", "login.example.org:/home/a/log", "-e", "log/"], ["--output=/home/a/log", "--error=log/%x.e%j"]),
        (
            ["-W", "umask=022,depend=afterokarray:12[].server,afterany:13"],
            ["--dependency=afterok:12,afterany:13"],
        ),
        (["-W", "block=true", "-c", "n", "-z", "-w", "/data"], ["--wait", "--chdir=/data"]),
    ],
)
def test_directives_of_pbs(words: list[str], expected: list[str]) -> None:
    assert pbs_words(words) == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-l", "select=1:ncpus=4:model=bro"], "unknown resource 'model' of a chunk"),
        (["-l", "nodes="], "names no number of nodes"),
        (["-l", "select=1:ompthreads=x"], "'x' is no number of threads"),
        (["-W", "stagein=a@host:b"], "-W stagein: is not supported"),
        (["-a", "310830"], "'310830' is not a time"),
        (["-T", "prologue"], "-T: is not supported"),
    ],
)
def test_directives_of_pbs_that_would_be_lost_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        pbs_words(words)


def test_components_of_a_heterogeneous_job_are_refused_with_the_way_out() -> None:
    for words in (["hetjob"], [":", "-n2"], ["packjob"]):
        with pytest.raises(InputError, match=r"`parts:`"):
            without_components(words)
    assert [one.option.name for one in parse(["--tasks-per-node=2"], SBATCH)[0]] == ["ntasks-per-node"]


def test_a_job_file_with_comments_about_pbs_is_no_script(tmp_path: Path) -> None:
    for name, text, is_script in [
        ("job.yaml", "#PBS -N x\ncommand: echo\n", False),
        ("job.pbs", "#PBS -N x\necho\n", True),
        ("job", "#SBATCH -N 1\ncommand: echo\n", False),
        ("job.sh", "#!/bin/sh\n", True),
    ]:
        (tmp_path / name).write_text(text)
        assert starts_as_script(str(tmp_path / name)) == is_script, name


def test_the_commands_are_found_behind_a_link_and_an_unreadable_home_has_no_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder, links = tmp_path / "slurm", tmp_path / "bin"
    folder.mkdir()
    links.mkdir()
    (folder / "sbatch").write_text(f"#!/bin/sh\n{MARK}\n")
    (folder / "sbatch").chmod(0o755)
    (links / "sbatch").symlink_to(folder / "sbatch")
    monkeypatch.delenv(FOLDER, raising=False)
    monkeypatch.setenv("PATH", str(links))
    assert installed() == str(folder.resolve())

    def refused(path: Path, *_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_text", refused)
    monkeypatch.setattr(Path, "is_file", refused)
    assert (installed(), site()) == ("", Site())


def test_fields_of_sinfo_may_end_with_a_comma() -> None:
    assert letters("nodelist:20, StateLong, ") == "NT"


def test_a_script_for_pbs_names_its_interpreter_in_a_directive_or_gets_bash() -> None:
    named = "# two nodes\n\n#PBS -N x\n#PBS -S /usr/bin/python3\nprint()\n"
    assert begins_script(named)
    assert read_script(named, "run.pbs").text == f"#!/usr/bin/python3\n{named}"
    assert read_script("#PBS -N x\ntrue\n", "run.pbs").text.startswith("#!/bin/bash\n#PBS")
    other = "#!/bin/sh\n#PBS -S /bin/bash\n"
    assert read_script(other, "run.pbs", pbs=False).text == other
    assert read_script(f"{other}#SBATCH -n 2\n", "run.pbs").text.startswith(other)
    same = "#!/usr/bin/env bash\n#PBS -S /bin/bash\n"
    assert read_script(same, "run.pbs").text == same
    assert not begins_script("# a job file in place of\n#SBATCH -n 2\ncommand: echo\n")
    assert not begins_script("command: echo\n")
    assert not begins_script("# a job file\ncommand: echo\n#PBS\n")


def test_directives_of_other_systems_give_one_note_unless_the_script_has_own_ones() -> None:
    for line, system in (("#BSUB -n 4", "LSF"), ("#$ -pe smp 4", "Grid Engine"), ("#flux: -N1", "Flux")):
        script = read_script(f"#!/bin/sh\n# a comment -x\n{line}\n{line}\n", "run.sh")
        assert len(script.notes) == 1, line
        assert script.notes[0].startswith(f"run.sh:3: {line.partition(' ')[0]} lines are of {system} "), line
        assert not read_script(f"#!/bin/sh\n{line}\n#SBATCH -n 4\n", "run.sh").notes
