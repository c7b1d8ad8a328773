"""The files of deploy/ and the workflow of serving name what exists. Docker is not needed."""

import re

import pytest
import setuptools
import yaml

from tests.recipes.commands import ROOT, check_options

DEPLOY = ROOT / "deploy"
IMAGE = re.compile(r"tensorflow/serving:[\w.-]+")


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


DOCKERFILE = read("deploy/Dockerfile")
COMPOSE = yaml.safe_load(read("deploy/compose.yaml"))["services"]
WORKFLOW = yaml.safe_load(read(".github/workflows/serving.yml"))
RUNS = [step["run"] for job in WORKFLOW["jobs"].values() for step in job["steps"] if "run" in step]


def options(words):
    """The `--name=value` of a command as a dictionary."""
    return dict(word.removeprefix("--").split("=", 1) for word in words if word.startswith("--") and "=" in word)


def recipe_commands():
    """The commands that containers of deploy/Dockerfile run, as lists of words: its entry point is `python -m`."""
    commands = [service["command"] for service in COMPOSE.values() if "build" in service]
    texts = [*RUNS, DOCKERFILE, *(path.read_text(encoding="utf-8") for path in sorted(DEPLOY.rglob("*.yaml")))]
    texts.append(read("docs/deploy.md").replace("\\\n", " "))
    pattern = r"(?:keras_headattn:[cg]pu|--rm train) (recipes[^\n`]*)"
    return commands + [found.split() for text in texts for found in re.findall(pattern, text)]


@pytest.mark.parametrize("command", recipe_commands(), ids=lambda words: "_".join(words[:2]))
def test_commands_have_options_that_exist(command):
    module, *arguments = command
    check_options(module.removeprefix("recipes."), arguments)


def test_the_dockerfile_copies_what_there_is_and_installs_extras_that_exist(monkeypatch):
    given = {}
    monkeypatch.setattr(setuptools, "setup", given.update)
    monkeypatch.chdir(ROOT)
    exec(compile(read("setup.py"), "setup.py", "exec"), {})
    extras = [name for names in re.findall(r'"\.\[(.*?)\]"', DOCKERFILE) for name in names.split(",")]
    assert sorted(extras) == ["gpu", "recipes"] and set(extras) <= set(given["extras_require"])
    copied = [name for line in re.findall(r"^COPY (.*)$", DOCKERFILE, re.MULTILINE) for name in line.split()[:-1]]
    assert all((ROOT / name).exists() for name in copied)
    kept = re.findall("^!(.*)$", read("deploy/Dockerfile.dockerignore"), re.MULTILINE)
    assert sorted(kept) == sorted(copied)
    stages = re.findall(r"^FROM \S+ AS (\w+)$", DOCKERFILE, re.MULTILINE)
    targets = re.findall(r"--target (\w+)", "\n".join([DOCKERFILE, read("docs/deploy.md"), *RUNS]))
    targets += [service["build"]["target"] for service in COMPOSE.values() if "build" in service]
    assert set(targets) == set(stages)


def test_the_server_is_of_one_version_which_the_workflow_tries():
    texts = [
        path.read_text(encoding="utf-8") for path in [*sorted(DEPLOY.rglob("*.yaml")), ROOT / "docs" / "deploy.md"]
    ]
    (image,) = set(IMAGE.findall("\n".join(texts)))
    assert image in WORKFLOW["jobs"]["tensorflow-serving"]["strategy"]["matrix"]["image"]
    assert image in read("tests/serving/check.py") and image in read("docs/serving.md")


def test_services_of_compose():
    page, serving = COMPOSE["page"], COMPOSE["serving"]
    port = options(page["command"])["port"]
    assert (
        page["ports"] == [f"127.0.0.1:{port}:{port}"] and f"127.0.0.1:{port}/healthz" in page["healthcheck"]["test"][-1]
    )
    assert serving["ports"] == ["127.0.0.1:8500:8500", "127.0.0.1:8501:8501"]
    assert "/dev/tcp/127.0.0.1/8501 " in serving["healthcheck"]["test"][-1]
    assert options(page["command"])["origin"] == "http://localhost:8501"
    for service in COMPOSE.values():
        for volume in service["volumes"]:
            source, target = volume.split(":")[:2]
            assert f"/{source.removeprefix('../')}/" in read(".gitignore").replace("saved_models/*", "saved_models/")
            assert target in ("/models", "/app/runs", "/app/saved_models")


def test_the_workflow_runs_what_there_is():
    assert any(run.startswith(".venv/bin/python -m tests.serving.check --serving ") for run in RUNS)
    assert "make .venv/.tests" in RUNS and "$(VENV)/.%: setup.py" in read("Makefile")
    files = re.findall(r"-f (\S+)", "\n".join([*RUNS, read("docs/deploy.md")]))
    assert files and all((ROOT / file).exists() for file in files)
    paths = WORKFLOW[True]["pull_request"]["paths"]  # YAML reads `on` as true
    assert all((ROOT / path.removesuffix("/**")).exists() for path in paths)
