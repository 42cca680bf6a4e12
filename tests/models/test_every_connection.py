"""What every connection does: half precision, saving and resuming, learning 50 pairs by heart."""

import io

import pytest
import torch
import toy
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.fairseq_task import FairseqTask

PAD = toy.DICTIONARY.pad()


#: Schedules that fit into a short training.
SHORT = {"branchnorm": {"branchnorm_updates": 50}}


class Training:
    """A model in training by fairseq's own step, `updates` of it done."""

    def __init__(self, connection, seed=1, schedule=lambda update: 1.0, **flags):
        self.model = toy.model(connection, seed=seed, **flags)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=5e-3, betas=(0.9, 0.98))
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, schedule)
        self.task = FairseqTask(None)
        self.criterion = CrossEntropyCriterion(self.task, sentence_avg=False)
        self.updates = 0

    def run(self, batches):
        for batch in batches:
            torch.manual_seed(self.updates)
            self.optimizer.zero_grad()
            self.task.train_step(batch, self.model, self.criterion, self, self.updates)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.scheduler.step()
            self.updates += 1
        return self.model.eval()

    def backward(self, loss):
        (loss / 30).backward()

    def state(self):
        saved = io.BytesIO()
        torch.save([self.model.state_dict(), self.optimizer.state_dict(), self.updates], saved)
        saved.seek(0)
        return saved

    def load(self, saved):
        model, optimizer, self.updates = torch.load(saved)
        self.model.load_state_dict(model)
        self.optimizer.load_state_dict(optimizer)


@pytest.mark.parametrize("connection", toy.CONNECTIONS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision(connection, dtype):
    """Outputs near those of float32 and finite gradients, in twelve layers, profiling included."""
    model = toy.model(connection, encoder_layers=6, decoder_layers=6)
    expected = model(**toy.batch())[0]
    model = model.to(dtype)
    found = model(**toy.batch())[0]
    assert found.dtype is dtype
    scale = expected.abs().max()
    assert (found - expected).abs().max() < {torch.float16: 0.02, torch.bfloat16: 0.15}[
        dtype
    ] * scale
    model.train()(**toy.batch())[0].float().logsumexp(-1).mean().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("connection", toy.CONNECTIONS)
def test_saved_and_resumed_training_is_the_same(connection):
    """Bit for bit: weights, what depends on updates, what was measured, and the outputs."""
    batches = [toy.sample(seed=seed) for seed in range(6)]
    whole, first = Training(connection, dropout=0.1), Training(connection, dropout=0.1)
    expected = whole.run(batches)
    first.run(batches[:3])
    resumed = Training(connection, seed=9, dropout=0.1)
    resumed.load(first.state())
    model = resumed.run(batches[3:])
    for name, value in expected.state_dict().items():
        assert torch.equal(model.state_dict()[name], value), name
    with torch.no_grad():
        assert torch.equal(model(**toy.batch())[0], expected(**toy.batch())[0])


def test_fairseq_tells_the_number_of_updates():
    training = Training("branchnorm", branchnorm_updates=10)
    model = training.run([toy.sample()] * 4)
    assert model.decoder.layers[1].encoder_attn_connection.alpha == 0.4


@pytest.mark.slow
@pytest.mark.parametrize("connection", toy.CONNECTIONS)
def test_learns_fifty_pairs(connection):
    updates = 250
    schedule = lambda update: min(1, (update + 1) / 50) * (1 - update / updates)  # noqa: E731
    batch = toy.sample(pairs=50)
    # Where the model changes with the number of updates, it has to be done with that.
    model = Training(connection, schedule=schedule, **SHORT.get(connection, {})).run(
        [batch] * updates
    )
    generator = SequenceGenerator([model], toy.DICTIONARY, beam_size=1, max_len_b=20)
    found = generator.generate([model], batch)
    wrong = [
        row
        for row, (hypotheses, target) in enumerate(zip(found, batch["target"]))
        if hypotheses[0]["tokens"].tolist() != target[target != PAD].tolist()
    ]
    assert wrong == []
