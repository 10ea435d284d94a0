"""The files for clusters: their arguments are those of the command and of the application."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from ms_ascend_ops.commands.serve import serve
from ms_ascend_ops.serving.settings import Settings, read_options

FOLDER = Path(__file__).parents[2] / "examples" / "serving"


def documents(name):
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def containers():
    deployment = documents("kubernetes.yaml")[0]["spec"]["template"]["spec"]["containers"][0]
    runtime = documents("kserve.yaml")[0]["spec"]["containers"][0]
    return [deployment, runtime]


@pytest.mark.parametrize("container", containers(), ids=["kubernetes", "kserve"])
def test_arguments_of_the_command(container, tmp_path):
    """Every option is one of the command's; files and folders are as in the container."""
    for name in ("api-keys", "admin-keys"):
        (tmp_path / name).write_text("key")
    texts = [text.replace("/keys", str(tmp_path)).replace("/models", str(tmp_path)) for text in container["args"]]
    parameters = serve.make_context("serve", texts).params
    assert parameters["models"] or parameters["repository"] == tmp_path
    ports = {parameters["port"], parameters["grpc_port"]}
    assert {port["containerPort"] for port in container["ports"]} <= ports


def test_probes_and_grace():
    pod = documents("kubernetes.yaml")[0]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    grace = next(int(text.partition("=")[2]) for text in container["args"] if text.startswith("--grace"))
    before = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > grace + before
    assert container["livenessProbe"]["httpGet"]["path"] == "/v2/health/live"
    assert container["readinessProbe"]["httpGet"]["path"] == "/v2/health/ready"


def test_configuration_of_ray():
    application = documents("ray.yaml")[0]["applications"][0]
    own = ("replicas", "threads", "requests")
    settings = Settings(**{name: value for name, value in application["args"].items() if name not in own})
    assert set(settings.models) == {"classifier", "assistant"}
    assert read_options(None, settings.defaults).max_batch_size == 16


@pytest.mark.clients
@pytest.mark.skipif(find_spec("ray") is None, reason="`bash build.sh test --clients` installs it")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # in Ray's own schema
def test_ray_takes_its_configuration():
    from ray.serve.schema import ServeDeploySchema  # noqa: PLC0415

    from ms_ascend_ops.serving import ray_serve  # noqa: PLC0415

    config = documents("ray.yaml")[0]
    schema = ServeDeploySchema.model_validate(config)
    module, _, name = schema.applications[0].import_path.partition(":")
    assert (module, callable(getattr(ray_serve, name))) == (ray_serve.__name__, True)
    assert ray_serve.build(config["applications"][0]["args"]) is not None
