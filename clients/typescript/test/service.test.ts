/** Against a real service; the variables of the environment say where it is. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, type Decision, ServiceError } from "../src/index.js";

const url = process.env["ROLIN_URL"]!;
const key = process.env["ROLIN_API_KEY"]!;
const pid = Number(process.env["ROLIN_PID"]);
const bandit = new Client({ url, key, timeout: 60_000 }).bandit("default");
const arms = [
  { id: "football", features: { topic: "sport" } },
  { id: "recipes", features: { topic: "food" } },
];

async function get(path: string): Promise<any> {
  const response = await fetch(`${url}/v1/bandits/default${path}`, { headers: { Authorization: `Bearer ${key}` } });
  return response.ok ? response.json() : undefined;
}

test("decide, reward and activate", async () => {
  const question = { id: "visit 1/ü?#%", arms, situation: { hour: 9 }, person: "ann" };
  const decision = await bandit.decide(question);
  assert.deepEqual(await bandit.decide(question), decision);
  assert.deepEqual(decision.probabilities, { football: 0.5, recipes: 0.5 });
  assert.equal(await bandit.reward(decision, 1), "recorded");
  assert.equal(await bandit.reward("not yet", 1), "early");
  const later = await bandit.decide({ arms: ["a", "b"], active: false, top_k: 2 });
  assert.equal(later.ranking.length, 2);
  assert.equal(await bandit.activate(later), true);
  assert.equal(await bandit.reward(later.id, 0.5, { arm: later.ranking[1]!, weight: 2 }), "recorded");
  await assert.rejects(bandit.decide({ ...question, person: "bob" }), (error: ServiceError) => error.status === 409);
});

test("batches", async () => {
  const [one, two, three] = await bandit.decideBatch([{ arms }, { arms: ["a", "a"] }, { arms, fallback: "recipes" }]);
  assert.ok(two instanceof ServiceError && two.status === 400);
  assert.ok(!(one instanceof ServiceError) && !(three instanceof ServiceError));
  const told = await bandit.rewardBatch([
    { decision: one!, value: 1 },
    { decision: three!.id, value: 0 },
    { decision: "unknown", value: 1 },
    { decision: "unrecorded-x", value: 1 },
  ]);
  assert.deepEqual(told, ["recorded", "recorded", "early", "unrecorded"]);
  const [again, missing] = await bandit.activateBatch([three!, "none"]);
  assert.equal(again, true);
  assert.ok(missing instanceof ServiceError && missing.status === 404);
});

test("candidates of a catalogue", async () => {
  const body = ["red", "blue", "grey"].map((id, k) => JSON.stringify({ id, features: { price: k } })).join("\n");
  const path = `${url}/v1/bandits/default/catalogue`;
  assert.ok((await fetch(path, { method: "PUT", body, headers: { Authorization: `Bearer ${key}` } })).ok);
  const decision = await bandit.decide({ candidates: ["red", "grey"], fallback: "red" });
  assert.deepEqual([Object.keys(decision.probabilities!), decision.recorded], [["red", "grey"], true]);
  await assert.rejects(bandit.decide({ candidates: ["red"], fallback: "blue" }), TypeError);
  // A number needs a bandit that takes vectors, which the service says.
  await assert.rejects(bandit.decide({ candidates: 2 }), (error: ServiceError) => error.status === 422);
});

test("a wrong key", async () => {
  const wrong = new Client({ url, key: "wrong" }).bandit("default");
  await assert.rejects(wrong.decide({ arms, fallback: "recipes" }), (error: ServiceError) => error.status === 401);
});

test("a decision that came too late is never learned", async () => {
  const { n_arms } = await get("");
  const hurried = new Client({ url, key, timeout: 300, warn: () => {} }).bandit("default");
  process.kill(pid, "SIGSTOP");
  let decision: Decision;
  const begin = performance.now();
  try {
    decision = await hurried.decide({ id: "late", arms: ["new-1", "new-2"], fallback: "new-1" });
  } finally {
    process.kill(pid, "SIGCONT");
  }
  const taken = performance.now() - begin;
  assert.ok(taken > 250 && taken < 2000, `${taken} ms`);
  assert.deepEqual([decision.arm, decision.recorded], ["new-1", false]);
  while ((await get("/decisions/late")) === undefined) await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(await bandit.reward(decision, 1), "unrecorded");
  assert.equal(await bandit.reward("late", 1), "recorded"); // held for an activation that never comes
  assert.equal((await get("")).n_arms, n_arms);
});
