"""tools/run_unit.sh and tools/run_fuzz.sh: programs run at the same time, are told of in order, counted, and none is lost that dies."""
import subprocess

from conftest import ROOT

PASSES = "echo '[       OK ] a'; echo '[       OK ] b'; echo 'skip: no card'"
FAILS = "echo '[       OK ] a'; echo '[  FAILED  ] b'; echo '[  FAILED  ] 1 test(s), listed below:'; echo '[  FAILED  ] b'; exit 1"


def program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_unit_programs(tmp_path):
    texts = {"slow": f"sleep 0.3; {PASSES}", "dies": f"{PASSES}; kill -9 $$", "quick": PASSES, "fails": FAILS, "empty": "true", "after": PASSES}
    names = [program(tmp_path / name, text) for name, text in texts.items()]
    r = subprocess.run([ROOT / "tools" / "run_unit.sh", *names, tmp_path / "missing"], capture_output=True, text=True, timeout=60)
    told = [line.split()[1].rstrip(":").rsplit("/", 1)[1] for line in r.stdout.splitlines() if line.startswith(("ok ", "FAILED "))]
    assert told == [*texts, "missing"]
    assert "FAILED " + names[1] + " (exit code 137)" in r.stdout and r.stdout.count("skip: no card") == 4
    assert r.stdout.splitlines()[-1] == "unit: 9 passed, 4 failed, 4 skipped" and r.returncode == 1
    r = subprocess.run([ROOT / "tools" / "run_unit.sh", names[0], names[2]], capture_output=True, text=True, timeout=60)
    assert r.stdout.splitlines()[-1] == "unit: 4 passed, 0 failed, 2 skipped" and r.returncode == 0


def test_fuzz_targets(tmp_path):
    for name, text in {"b": "echo 'stat::number_of_executed_units: 7'", "a": "sleep 0.3; echo found; exit 77", "c": "kill -9 $$"}.items():
        program(tmp_path / f"fuzz_{name}", text)
    (tmp_path / "fuzz_b.d").write_text("")
    r = subprocess.run([ROOT / "tools" / "run_fuzz.sh", tmp_path, "1"], capture_output=True, text=True, timeout=60)
    assert [line.split()[2] for line in r.stdout.splitlines() if line.startswith("== fuzz")] == ["a,", "b,", "c,"]
    assert "found\nFAILED fuzz a;" in r.stdout and "FAILED fuzz c;" in r.stdout and "units: 7" in r.stdout
    assert r.stdout.splitlines()[-1] == "fuzz: 1 passed, 2 failed" and r.returncode == 1
    for name in "ac":
        (tmp_path / f"fuzz_{name}").unlink()
    assert subprocess.run([ROOT / "tools" / "run_fuzz.sh", tmp_path, "1"], capture_output=True, timeout=60).returncode == 0
    (tmp_path / "fuzz_b").unlink()
    assert subprocess.run([ROOT / "tools" / "run_fuzz.sh", tmp_path, "1"], capture_output=True, timeout=60).returncode == 1  # none is no success
