/** When a client repeats a request and when it gives up, with a `fetch` of our own. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, type Options, ServiceError, ServiceUnavailable, UnexpectedAnswer } from "../src/index.js";

type Handler = (path: string, body: any, k: number) => Response | Error | Promise<Response>;

function clientOf(handler: Handler, more: Partial<Options> = {}) {
  const sent: { path: string; body: any; headers: any }[] = [];
  const warnings: string[] = [];
  const fake = async (url: any, init: any) => {
    const path = new URL(url).pathname;
    const body = init.body === undefined ? undefined : JSON.parse(init.body);
    sent.push({ path, body, headers: init.headers });
    const found = await handler(path, body, sent.length);
    if (found instanceof Error) throw found;
    return found;
  };
  const options = { url: "http://service/behind/proxy/", key: "secret", fetch: fake as typeof fetch, ...more };
  const client = new Client({ warn: (message) => warnings.push(message), ...options });
  return { bandit: client.bandit("offers"), sent, warnings };
}

const made = (body: any, more = {}) =>
  Response.json({ id: body.id, arm: body.arms[0], ranking: [body.arms[0]], probabilities: null, ...more }, { status: 201 });
const refused = (status: number, headers = {}) =>
  Response.json({ error: { code: "some_code", message: "why", field: "arms" } }, { status, headers });

test("what may pass is repeated with the same id and question", async () => {
  for (const failure of [() => new TypeError("fetch failed"), ...[429, 502, 503, 504].map((s) => () => refused(s))]) {
    const { bandit, sent } = clientOf((_, body, k) => (k < 3 ? failure() : made(body)));
    const decision = await bandit.decide({ arms: ["a", "b"] });
    assert.equal(decision.arm, "a");
    assert.equal(sent.length, 3);
    assert.deepEqual(sent[0], sent[2]);
    assert.equal(sent[0]!.headers.Authorization, "Bearer secret");
    assert.match(decision.id, /^[0-9a-f]{32}$/);
  }
});

test("what will not pass is not repeated, and has no fallback", async () => {
  for (const status of [400, 401, 404, 409, 413]) {
    const { bandit, sent } = clientOf(() => refused(status));
    const call = bandit.decide({ arms: ["a"], fallback: "a" });
    await assert.rejects(call, (error: ServiceError) => {
      assert.equal(error.constructor, ServiceError);
      assert.deepEqual([error.status, error.code, error.field], [status, "some_code", "arms"]);
      assert.match(error.message, /^POST \/v1\/bandits\/offers\/decisions: why \(status \d+, some_code, field arms\)$/);
      return true;
    });
    assert.equal(sent.length, 1);
  }
  const { bandit, sent } = clientOf(() => refused(500));
  assert.equal((await bandit.decide({ arms: ["a"], fallback: "a" })).recorded, false);
  assert.equal(sent.length, 1);
});

test("the service says how long to wait", async () => {
  const waiting = clientOf((_, body, k) => (k === 1 ? refused(503, { "Retry-After": "1" }) : made(body)));
  const begin = performance.now();
  await waiting.bandit.decide({ arms: ["a"] });
  assert.ok(performance.now() - begin >= 1000);
  const hurried = clientOf(() => refused(503, { "Retry-After": "1" }), { timeout: 500 });
  await assert.rejects(hurried.bandit.decide({ arms: ["a"] }), ServiceUnavailable);
  assert.equal(hurried.sent.length, 1);
});

test("a fallback is confirmed in two steps", async () => {
  const { bandit, sent } = clientOf((_, body) => (body ? made(body) : new Response(null, { status: 204 })));
  const decision = await bandit.decide({ id: "visit 1/ü", arms: ["a", "b"], fallback: "b" });
  assert.deepEqual([decision.arm, decision.recorded], ["a", true]);
  assert.deepEqual(sent.map(({ body }) => body), [{ id: "visit 1/ü", arms: ["a", "b"], active: false }, undefined]);
  assert.equal(sent[1]!.path, "/behind/proxy/v1/bandits/offers/decisions/visit%201%2F%C3%BC/activate");
});

test("a fallback is not recorded, and nothing is sent for it", async () => {
  const { bandit, sent, warnings } = clientOf(() => new TypeError("fetch failed"), { retries: 0 });
  const question = { id: "1", arms: ["a", "b", "c"], top_k: 2, fallback: ["b", "c"] };
  const decision = await bandit.decide(question);
  assert.deepEqual([decision.id, decision.arm, decision.ranking], ["unrecorded-1", "b", ["b", "c"]]);
  assert.match(warnings[0]!, /decision 1 falls back to "b": POST .* no answer: fetch failed/);
  assert.equal(await bandit.reward(decision, 1), "unrecorded");
  assert.equal(await bandit.reward(decision.id, 1), "unrecorded");
  assert.equal(await bandit.activate(decision), false);
  assert.deepEqual(await bandit.rewardBatch([{ decision, value: 1 }]), ["unrecorded"]);
  assert.deepEqual(await bandit.activateBatch([decision]), [false]);
  assert.equal(sent.length, 1);
  const [first, second] = await bandit.decideBatch([{ arms: ["a"] }, { arms: ["a"], fallback: "a" }]);
  assert.ok(first instanceof ServiceUnavailable);
  assert.ok(!(second instanceof ServiceError) && second!.arm === "a");
  await assert.rejects(bandit.decideBatch([{ arms: ["a"] }]), ServiceUnavailable);
});

test("a fallback of the service is not recorded either", async () => {
  const { bandit, sent } = clientOf((_, body) => made(body, { recorded: false }));
  const decision = await bandit.decide({ id: "1", arms: ["a", "b"], fallback: "b" });
  assert.deepEqual([decision.id, decision.arm, sent.length], ["unrecorded-1", "a", 1]);
});

test("a decision whose activation is lost is shown", async () => {
  const { bandit, warnings } = clientOf((_, body) => (body ? made(body) : new TypeError("lost")), { retries: 0 });
  assert.equal((await bandit.decide({ id: "1", arms: ["a"], fallback: "a" })).recorded, true);
  assert.match(warnings[0]!, /decision 1 could not be activated/);
});

test("bad questions are rejected before they are sent", async () => {
  const { bandit, sent } = clientOf(() => refused(500));
  const questions = [
    { arms: ["a"], fallback: "b" },
    { arms: ["a"], fallback: [] },
    { arms: ["a", "b"], exclude: ["b"], fallback: "b" },
    { arms: ["a"], id: "unrecorded-1" },
    { arms: ["a"], id: ".." },
    { arms: ["a"], id: "x\ud800" },
    { arms: ["a"], situation: { x: NaN } },
  ];
  for (const question of questions) await assert.rejects(bandit.decide(question), TypeError);
  assert.equal(sent.length, 0);
  assert.throws(() => new Client({ url: "localhost:8000" }), /expected an address/);
});

test("an answer that is not from the service", async () => {
  const { bandit } = clientOf(() => new Response("<html>hello"));
  await assert.rejects(bandit.decide({ arms: ["a"] }), /unexpected answer: it is not JSON: "<html>hello"; is this the address/);
});

test("what was not asked for is not used", async () => {
  const own = { id: "1", arm: "a", ranking: ["a"] };
  const answers: any[] = [
    [], {}, "x", null, 3, { id: "1" }, { ...own, id: "2" }, { ...own, id: 1 }, { ...own, arm: "c" }, { ...own, arm: "x" },
    { ...own, ranking: ["a", "c"] }, { ...own, ranking: null }, { ...own, recorded: "yes" },
    { ...own, id: "unrecorded-1" }, { ...own, id: "2", recorded: false },
  ];
  for (const answer of answers) {
    const { bandit, sent } = clientOf((path) =>
      Response.json(path.endsWith("batch") ? { results: [answer && { status: 201, ...answer }] } : answer),
    );
    const question = { id: "1", arms: ["a", "b", "x"], exclude: ["x"] };
    await assert.rejects(bandit.decide(question), UnexpectedAnswer);
    assert.ok((await bandit.decideBatch([question]))[0] instanceof UnexpectedAnswer);
    assert.equal((await bandit.decide({ ...question, fallback: "b" })).recorded, false);
    assert.equal(sent.filter(({ path }) => path.includes("activat")).length, 0);
  }
  for (const id of ["1", "unrecorded-1", "unrecorded-ab12"]) {
    const { bandit } = clientOf(() => Response.json({ ...own, id, recorded: false }));
    const made = await bandit.decide({ id: "1", arms: ["a"] });
    assert.deepEqual([made.id, made.active], [id === "1" ? "unrecorded-1" : id, false]);
  }
});

test("no answer makes a call fail otherwise", async () => {
  const deep = "[".repeat(200_000);
  for (const text of ["", "[]", "{}", '{"results":[]}', '{"results":[null]}', deep]) {
    const { bandit } = clientOf(() => new Response(text));
    await assert.rejects(bandit.activate("1"), UnexpectedAnswer);
    await assert.rejects(bandit.reward("1", 1), UnexpectedAnswer);
    const calls = [() => bandit.activateBatch(["1"]), () => bandit.rewardBatch([{ decision: "1", value: 1 }])];
    for (const call of calls) {
      const found = await call().catch((error) => [error]);
      assert.ok(found[0] instanceof UnexpectedAnswer);
    }
    assert.equal((await bandit.decide({ arms: ["a", "b"], fallback: "b" })).arm, "b");
  }
  const { bandit } = clientOf(() => new Response(new Uint8Array(70_000_000)));
  await assert.rejects(bandit.reward("1", 1), /more than 67108864 bytes/);
  const moved = clientOf(() => new Response(null, { status: 308, headers: { Location: "https://service/" } }));
  await assert.rejects(moved.bandit.reward("1", 1), /redirected to https:\/\/service\/, expected the address/);
});

test("a lost activation is made good by the reward", async () => {
  let lost = true;
  const { bandit, sent } = clientOf((path, body) => {
    if (path.includes("activat") && lost) return refused(503);
    if (path.endsWith("decisions")) return made(body);
    if (path.endsWith("s")) return Response.json({ results: [{ status: 204 }] });
    return new Response(null, { status: 204 });
  }, { retries: 0 });
  const decision = await bandit.decide({ id: "1", arms: ["a"], fallback: "a" });
  assert.deepEqual([decision.recorded, decision.active, decision.activationLost], [true, false, true]);
  await assert.rejects(bandit.reward(decision, 1), ServiceUnavailable);
  assert.ok((await bandit.rewardBatch([{ decision, value: 1 }]))[0] instanceof ServiceUnavailable);
  lost = false;
  sent.length = 0;
  assert.equal(await bandit.reward(decision, 1), "recorded");
  assert.deepEqual(await bandit.rewardBatch([{ decision, value: 1 }]), ["recorded"]);
  const paths = sent.map(({ path }) => path.split("/").pop());
  assert.deepEqual(paths, ["activate", "reward", "activations", "rewards"]);
  assert.equal((await bandit.decide({ id: "1", arms: ["a"], fallback: "a" })).active, true);
});
