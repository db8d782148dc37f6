import pytest
import torch

from scumble.data.crops import CropPlan
from scumble.data.loaders import ResidentLoader, Share, ThreadedLoader

SCALE, PATCH, BATCH = 2, 5, 3


class InMemory:
    """Pairs whose clean picture repeats every pixel of the degraded one."""

    sizes = ((9, 12), (7, 8), (20, 6))

    def __init__(self):
        self.pairs = []
        for height, width in self.sizes:
            small = torch.randint(0, 256, (3, height, width), dtype=torch.uint8)
            large = small.repeat_interleave(SCALE, 1).repeat_interleave(SCALE, 2)
            self.pairs.append((small, large))

    def __len__(self):
        return len(self.pairs)

    def pair(self, index):
        return self.pairs[index]

    def crop(self, index, top, left, height, width, scale):
        small, large = self.pairs[index]
        rows, columns = slice(top, top + height), slice(left, left + width)
        wide_rows = slice(top * scale, (top + height) * scale)
        wide_columns = slice(left * scale, (left + width) * scale)
        return small[:, rows, columns], large[:, wide_rows, wide_columns]


def loaders(photos, rank=0, processes=1):
    plan = CropPlan(photos.sizes, PATCH, seed=1)
    share = Share(plan, PATCH, SCALE, BATCH, rank, processes)
    return ThreadedLoader(photos, share), ResidentLoader(photos, share, device="cpu")


def test_both_loaders_give_the_same_batches():
    threaded, resident = loaders(InMemory())
    for ours, theirs in zip(threaded.batches(0, 40), resident.batches(0, 40), strict=True):
        assert torch.equal(ours[0], theirs[0])
        assert torch.equal(ours[1], theirs[1])


@pytest.mark.parametrize("kind", [0, 1])
def test_a_batch_is_crops_of_both_pictures_turned_alike(kind):
    loader = loaders(InMemory())[kind]
    for degraded, clean in loader.batches(0, 20):
        assert degraded.shape == (BATCH, 3, PATCH, PATCH)
        assert clean.shape == (BATCH, 3, PATCH * SCALE, PATCH * SCALE)
        repeated = degraded.repeat_interleave(SCALE, 2).repeat_interleave(SCALE, 3)
        assert torch.equal(clean, repeated)
        assert degraded.min() >= 0
        assert degraded.max() <= 1


def test_all_eight_turns_appear_and_are_right():
    photos = InMemory()
    threaded, _ = loaders(photos)
    seen = set()
    for step, (degraded, _) in enumerate(threaded.batches(0, 30)):
        crops = threaded.share.crops(step)
        for index in range(BATCH):
            place = (int(crops.picture[index]), int(crops.top[index]), int(crops.left[index]))
            turn = int(crops.turn[index])
            plain = photos.crop(*place, PATCH, PATCH, SCALE)[0].float() / 255
            # What is read last is undone first: flips are of the picture, before transposing.
            plain = plain.flip(1) if turn & 2 else plain
            plain = plain.flip(2) if turn & 1 else plain
            plain = plain.transpose(1, 2) if turn & 4 else plain
            assert torch.equal(degraded[index], plain), turn
            seen.add(turn)
    assert seen == set(range(8))


def test_a_run_can_start_at_any_step():
    threaded, resident = loaders(InMemory())
    for loader in (threaded, resident):
        whole = [batch[0] for batch in loader.batches(0, 10)]
        late = [batch[0] for batch in loader.batches(6, 10)]
        assert all(torch.equal(a, b) for a, b in zip(whole[6:], late, strict=True))


def test_two_processes_get_the_halves_of_a_doubled_batch():
    photos = InMemory()
    plan = CropPlan(photos.sizes, PATCH, seed=1)
    doubled = ThreadedLoader(photos, Share(plan, PATCH, SCALE, 2 * BATCH))
    halves = [loaders(photos, rank, 2)[0] for rank in (0, 1)]
    whole, first, second = (next(iter(part.batches(4, 5)))[1] for part in (doubled, *halves))
    assert torch.equal(whole, torch.cat([first, second]))


def test_a_loader_that_is_left_early_leaves_no_threads():
    import threading

    threaded, _ = loaders(InMemory())
    for _ in threaded.batches(0, 1000):
        break
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("scumble-data")]
