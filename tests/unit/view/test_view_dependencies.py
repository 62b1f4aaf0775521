"""What stands above the tile grids of a pipeline's dependencies."""

from wavesim import Block, Dependency, Grid, Kernel, Pipeline, Stage, gpt3_mlp, workload, x, y
from wavesim.plan.plan import SemaphoreSync
from wavesim.view.timeline_scene import scene_of_dependencies
from wavesim.widgets import DependencyExplorer


def test_a_subtitle_is_words_and_says_from_where_it_counts():
    network = workload("resnet-34-28", 4, (128, 128))
    explorer = DependencyExplorer(network)
    subtitle = explorer.scene["subtitle"]
    assert "layer2_1b needs tiles of layer2_1a, layer2_1_down" in subtitle
    assert "max(" not in subtitle  # the halo's arithmetic
    assert subtitle.count(" needs ") == 3
    assert f"; and {len(network.dependencies) - 3} more. A description" in subtitle
    # Tiles count from 0 wherever they are named; what counts from 1 says what it is.
    assert "order of processing, from 1; tiles count from 0" in explorer._esm


def test_a_short_dependency_is_read_as_it_is_written():
    mlp = gpt3_mlp(1024)
    written = str(mlp.dependencies[0])
    assert written in scene_of_dependencies(mlp, SemaphoreSync())["subtitle"]
    first, second = (Stage(name, Kernel(name, Grid(4, 4), Block(32))) for name in ("first", "second"))
    pair = Pipeline("pair", [first, second], [Dependency(second[x, y], [first[x, y]])])
    assert "more" not in scene_of_dependencies(pair, SemaphoreSync())["subtitle"]
