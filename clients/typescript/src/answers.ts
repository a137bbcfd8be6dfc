/** What answers mean. What is not the answer to the request is an error, and nothing of it is used. */

import type { Decision, Question } from "./client.js";
import { ServiceError, UnexpectedAnswer } from "./errors.js";
import type { components } from "./schemas.js";
import { type Answer, refusal } from "./sending.js";

/** The answer to an item of a batch. */
export type Item = Record<string, unknown> & { status: number };

const UNRECORDED = "unrecorded-";

/** Return whether the id is that of a fallback. */
export function isUnrecorded(id: string): boolean {
  return id.startsWith(UNRECORDED);
}

/** Return the id of a decision that is not recorded. */
export function unrecordedId(id: string): string {
  return isUnrecorded(id) ? id : UNRECORDED + id;
}

/** Reject what is not the empty answer of the service to something that it has done. */
export function checkDone(what: string, { status, body }: Answer): void {
  if (status !== 202 && status !== 204) {
    throw new UnexpectedAnswer(what, `status ${status} with ${shown(body)}, expected status 204`);
  }
}

/** Return the results of a batch of `n` items: the answer to each, or its error. */
export function resultsOf(what: string, body: unknown, n: number): (Item | ServiceError)[] {
  const results = isObject(body) ? body["results"] : undefined;
  if (!Array.isArray(results) || results.length !== n) {
    throw new UnexpectedAnswer(what, `${shown(body)}, expected ${n} results`);
  }
  return results.map((item: unknown, k) => {
    const where = `${what}: item ${k}`;
    if (!isObject(item) || typeof item["status"] !== "number") {
      return new UnexpectedAnswer(where, `${shown(item)}, expected an object with a status`);
    }
    return "error" in item ? refusal(where, item["status"], JSON.stringify(item)) : (item as Item);
  });
}

/** Return the decision of an answer, if it is the one that was asked for. */
export function decisionOf(what: string, body: unknown, id: string, question: Question): Decision {
  const { id: found, arm, ranking, recorded = true } = isObject(body) ? body : {};
  const isWhole = typeof found === "string" && Array.isArray(ranking) && typeof recorded === "boolean";
  if (!isWhole) throw new UnexpectedAnswer(what, `${shown(body)}, expected a decision`);
  if (found !== id && (recorded || !isUnrecorded(found))) {
    throw new UnexpectedAnswer(what, `the decision ${shown(found)}, expected ${shown(id)}`);
  }
  const known = offeredBy(question);
  for (const each of [arm, ...(ranking as unknown[])]) {
    const isOffered = typeof each === "string" && !question.exclude?.includes(each) && (known?.includes(each) ?? true);
    if (!isOffered) throw new UnexpectedAnswer(what, `the arm ${shown(each)}, which was not offered`);
  }
  const active = recorded && question.active !== false;
  const made = body as components["schemas"]["DecisionAnswer"];
  return { ...made, id: recorded ? found : unrecordedId(found), recorded, active, activationLost: false };
}

/** Return the names of the arms that a question offers; nothing if only the service knows them. */
export function offeredBy({ arms, candidates }: Question): string[] | undefined {
  if (Array.isArray(candidates)) return candidates;
  return arms?.map((each) => (typeof each === "string" ? each : each.id));
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function shown(value: unknown): string {
  return (JSON.stringify(value) ?? "nothing").slice(0, 300);
}
