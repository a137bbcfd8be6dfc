"""Programs that attacks run in processes of their own: kills, forks, and threads without a lock."""

# Three processes write to one journal, and are killed one after the other. They are forked from a process that has
# compiled everything, which takes a hundredth of the time that starting Python takes.
KILLS = """
import json, os, random, signal, sys, time, traceback
import numpy as np
import rolin
from rolin import Bandit
from rolin.errors import RewardConflict
from rolin.journal import check_journal, load_policy
from rolin.journal.events import Decayed
from rolin.journal.folding import state_bytes

folder, rounds, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
random.seed(seed)

def policy():
    return rolin.RoLinTS(n_features=2, noise_std="learn", arm_std="learn", seed=3)

def play(bandit, name, say):
    x = np.random.default_rng(0).normal(size=(97, 3, 2))
    for t in range(10**9):
        made = bandit.decide(x[t % 97], id=f"{name}-{t}", person=f"p{t % 3}")
        say(["decision", made.id, made.arm, made.propensity])
        if t % 3:
            try:
                bandit.reward(made.id, float(t % 5))
            except RewardConflict:  # another process was quicker, and has closed it
                pass
            else:
                say(["reward", made.id, float(t % 5)])
        if t % 11 == 5:
            bandit.decay(0.99)
            say(["decay"])
        if t % 13 == 7:
            bandit.expire(0.5, default_reward=0.0)
        if t % 17 == 9:
            bandit.snapshot()
        if name == "warm" and t == 40:
            return

with Bandit(policy()) as bandit:
    play(bandit, "warm", lambda what: None)

def writer(path, name, said):
    file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    bandit = Bandit(policy(), journal=path, snapshot_every=random.choice([7, 50]))
    play(bandit, name, lambda what: os.write(file, json.dumps(what).encode() + b"\\n"))

kills = acknowledged = 0
for i in range(rounds):
    path = f"{folder}/{i // 5}.db"
    files = [f"{path}.{i}-{who}" for who in range(3)]
    children = []
    for who in range(3):
        child = os.fork()
        if child == 0:
            random.seed(f"{seed} {i} {who}")
            try:
                writer(path, f"{i}-{who}", files[who])
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(3)
        children.append(child)
    random.shuffle(children)
    time.sleep(random.uniform(0.0, 0.2))
    for child in children:
        time.sleep(random.choice([0.0, random.uniform(0.0, 0.1)]))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "a process has ended with an error"
        kills += 1
    if i % 5 < 4 and random.random() < 0.5:
        continue
    with Bandit(policy(), journal=path) as bandit:
        journal, decays = bandit.journal, 0
        for name in os.listdir(folder):
            if not name.startswith(f"{i // 5}.db.") or name.endswith(("-wal", "-shm")):
                continue
            for line in open(f"{folder}/{name}"):
                if not line.endswith("\\n"):
                    continue
                kind, *what = json.loads(line)
                acknowledged += 1
                if kind == "decision":
                    found = journal.decision(what[0])
                    assert found is not None, f"{what[0]} was acknowledged, and is gone"
                    assert [found.arm, found.propensity] == what[1:]
                elif kind == "reward":
                    assert journal.outcomes(what[0])[0].value == what[1]
                else:
                    decays += 1
        assert sum(isinstance(event, Decayed) for _, event in journal.read()) >= decays
        replayed = load_policy(journal, from_start=True)
        assert replayed.version == bandit.version
        assert state_bytes(replayed.policy) == state_bytes(bandit.policy)
        bandit.reward(bandit.decide(np.eye(2), id=f"after {i}").id, 1.0)
    report = check_journal(path)
    assert report.is_whole, report.problems
print(f"{kills} kills in {rounds} rounds, {acknowledged} acknowledgements looked up")
"""

# A signal comes while the first calls of a process load compiled kernels, or compile them.
LOADING = """
import os, random, signal, sys
import numpy as np
import rolin

random.seed(int(sys.argv[2]))
outcomes = {}
for i in range(int(sys.argv[1])):
    seconds = random.uniform(0.0, 0.25)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        policy, code = rolin.RoLinTS(n_features=2, seed=0), 0

        def play():
            policy.update("a", [1.0, 2.0], 1.0)
            policy.decide(np.eye(2))
            policy.decay(0.5)

        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            play()
        except KeyboardInterrupt:
            code = 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        try:
            play()
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            code = 2
        os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    outcomes[code] = outcomes.get(code, 0) + 1
print(f"{outcomes.get(1, 0)} signals while kernels were loaded, {outcomes.get(0, 0)} later")
sys.exit(not set(outcomes) <= {0, 1})
"""

# Threads decide all the time, so that locks are held at the moment of most forks. An alarm kills a child that hangs.
FORKS = """
import faulthandler, os, random, signal, sys, threading, time
import numpy as np
import rolin
from rolin.errors import JournalError

folder, forks, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
random.seed(seed)
x = np.random.default_rng(seed).normal(size=(70_000, 2))
file = rolin.Bandit(rolin.RoLinTS(n_features=2, seed=1), journal=f"{folder}/j.db")
memory = rolin.Bandit(rolin.RoLinTS(n_features=2, seed=1))
policy = rolin.RoLinTS(n_features=2, seed=1)
small, large = rolin.Catalogue(policy, x[:50]), rolin.Catalogue(policy, x)
stop = False

def work(call):
    while not stop:
        call()

def played(bandit):
    bandit.reward(bandit.decide(x[:2]).id, 1.0)

threads = [
    threading.Thread(target=work, args=(call,))
    for call in (lambda: played(file), lambda: played(memory), lambda: small.decide(key=1), lambda: large.decide(key=1))
]
for bandit in (file, memory):
    bandit.reward(bandit.decide(x[:2], id="known").id, 1.0)
for catalogue in (small, large):
    catalogue.decide(key=1)
for thread in threads:
    thread.start()
writing = {
    "decide": lambda b: b.decide(x[:2]), "reward": lambda b: b.reward("known", 1.0), "snapshot": lambda b: b.snapshot(),
    "decay": lambda b: b.decay(0.5), "expire": lambda b: b.expire(1e9), "refresh": lambda b: b.refresh(),
    "erase": lambda b: b.erase(ids=["known"]), "remove": lambda b: b.remove_arm(0),
}
reading = {
    "explain": lambda b: b.explain("known"), "waiting": lambda b: b.waiting(), "predict": lambda b: b.predict(x[:2]),
    "policy": lambda b: b.policy, "repr": repr, "frame": lambda b: b.journal.decision("known"),
}

def in_child():
    for catalogue in (small, large):
        catalogue.decide(key=2)
        catalogue.add([[1.0, 2.0]], ["new"])
        catalogue.remove(["new"])
        fresh = rolin.Catalogue(policy, x[: len(catalogue)])
        assert catalogue.decide(key=3).arm == fresh.decide(key=3).arm
    for bandit in (file, memory):
        for name in random.sample(list(writing), 4):
            try:
                writing[name](bandit)
            except JournalError as error:
                assert "before a fork" in str(error), error
            else:
                raise AssertionError(f"{name} was not refused")
        for name in random.sample(list(reading), 3):
            try:
                reading[name](bandit)
            except JournalError as error:
                assert "before a fork" in str(error), error
        bandit.close()
    with rolin.Bandit(rolin.RoLinTS(n_features=2, seed=1), journal=f"{folder}/own-{os.getpid()}.db") as own:
        played(own)

outcomes = {}
for i in range(forks):
    time.sleep(random.uniform(0.0, 0.01))
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(60, exit=True)  # where it hangs
        signal.alarm(90)
        try:
            in_child()
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    outcomes[code] = outcomes.get(code, 0) + 1
stop = True
for thread in threads:
    thread.join()
for bandit in (file, memory):
    before = bandit.version
    played(bandit)
    assert bandit.version >= before + 2  # more if the scales were due
print(f"exit codes of {forks} children: {outcomes}")
sys.exit(set(outcomes) != {0})
"""

# Wrong results are allowed here, and documented: calls that change a policy need a lock. A crash is not.
THREADS = """
import sys, threading
import numpy as np
import rolin

sys.setswitchinterval(1e-6)
make = {
    "RoLinTS": lambda: rolin.RoLinTS(n_features=4, seed=1),
    "half-life": lambda: rolin.RoLinTS(n_features=4, seed=1, half_life=50.0),
    "learned": lambda: rolin.RoLinTS(n_features=4, seed=1, arm_std="learn"),
    "LogisticRoLinTS": lambda: rolin.LogisticRoLinTS(n_features=4, seed=1),
    "BayesRoLinTS": lambda: rolin.BayesRoLinTS(n_features=4, seed=1),
    "HLinUCB": lambda: rolin.HLinUCB(n_features=4, seed=1),
    "HybridLinUCB": lambda: rolin.HybridLinUCB(n_features=4, seed=1),
}[sys.argv[1]]
errors = {}
for repeat in range(int(sys.argv[2])):
    policy, start = make(), threading.Barrier(6)

    def change(t):
        rng = np.random.default_rng(t)
        for i in range(60):
            policy.update(f"{t}-{i}", rng.normal(size=4), float(i % 2))
            if i % 10 == 0:
                policy.update_many([f"{t}-{i}!", "shared"], rng.normal(size=(2, 4)), [1.0, 0.0])

    def decide(t):
        rng = np.random.default_rng(t)
        for i in range(60):
            policy.decide(rng.normal(size=(20, 4)), [f"{i % 4}-{j}" for j in range(20)])

    def run(call, t):
        start.wait()
        try:
            call(t)
        except Exception as error:
            errors[type(error).__name__] = errors.get(type(error).__name__, 0) + 1

    calls = [change] * 4 + [decide] * 2
    threads = [threading.Thread(target=run, args=(call, t)) for t, call in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(f"{sys.argv[1]}: {sys.argv[2]} times six threads, errors {errors}")
"""
