/** Decisions and rewards of the bandits of a service. */

import { type Item, checkDone, decisionOf, isUnrecorded, offeredBy, resultsOf, unrecordedId } from "./answers.js";
import { ServiceError, ServiceUnavailable, UnexpectedAnswer } from "./errors.js";
import type { components } from "./schemas.js";
import { type Options, Sender, now } from "./sending.js";

type Schemas = components["schemas"];

/** The question which of some arms should be shown, as the service takes it, and what to show if it does not answer. */
export interface Question extends Omit<Schemas["DecisionRequest"], "id"> {
  /** Your own id of the decision; by default a new one. */
  id?: string;
  /** The arm to show if the service does not answer in time, or a ranking of arms. */
  fallback?: string | readonly string[];
}

/** A decision of the service, or a fallback. */
export interface Decision extends Omit<Schemas["DecisionAnswer"], "mode" | "recorded"> {
  /** Who decided: the policy (`online`) or the baseline; `fallback` if the service did not answer. */
  mode: Schemas["DecisionAnswer"]["mode"] | "fallback";
  /** Whether the service has it. If not, rewards for this id are not sent. */
  recorded: boolean;
  /** Whether it counts: `false` if it is not recorded, was made with `active: false`, or could not be activated. */
  active: boolean;
  /** Whether the client tried to activate it, and got no answer: `reward` tries again. */
  activationLost: boolean;
}

/** A reward as an item of a batch. */
export type Reward = Omit<Schemas["RewardItem"], "decision"> & { decision: Decision | string };

/** What became of a reward: stored; stored until its decision comes; not sent, because the decision is a fallback. */
export type RewardStatus = "recorded" | "early" | "unrecorded";

/** A client of the decision service. */
export class Client {
  private readonly sender: Sender;

  constructor(options: Options) {
    this.sender = new Sender(options);
  }

  /** Return a bandit by name; nothing is sent. */
  bandit(name: string): Bandit {
    return new Bandit(name, this.sender);
  }
}

/** A bandit of the service; `Client.bandit` returns it. */
export class Bandit {
  readonly name: string;
  private readonly sender: Sender;
  private readonly path: string;

  constructor(name: string, sender: Sender) {
    this.name = name;
    this.sender = sender;
    this.path = `/v1/bandits/${quoted(name)}`;
  }

  /**
   * Choose an arm.
   *
   * With a `fallback`, the decision counts only if its answer came in time: it is asked for as inactive and activated by a
   * second request. So a decision that the service has recorded, but whose answer came too late to be shown, is never
   * learned from.
   */
  async decide(question: Question): Promise<Decision> {
    const { id, body, confirmed } = prepared(question);
    const until = now() + this.sender.timeout;
    let made: Decision;
    try {
      const path = `${this.path}/decisions`;
      const answer = await this.sender.post(path, body, until);
      made = decisionOf(`POST ${path}`, answer.body, id, question);
    } catch (error) {
      return this.fallenBack(question, id, error);
    }
    if (confirmed && made.recorded) {
      try {
        await this.activateOne(made.id, until);
      } catch (error) {
        this.lose(made, error);
      }
    }
    return made;
  }

  /** Make several decisions with one request; a decision or an error for each question, in order. */
  async decideBatch(questions: readonly Question[]): Promise<(Decision | ServiceError)[]> {
    const asked = questions.map(prepared);
    const until = now() + this.sender.timeout;
    let items: (Item | ServiceError)[];
    try {
      items = await this.batch("decisions/batch", { decisions: asked.map(({ body }) => body) }, until);
    } catch (error) {
      const hasNone = questions.every(({ fallback }) => fallback === undefined);
      if (!isNoDecision(error) || hasNone) throw error;
      items = questions.map(() => error);
    }
    const made = items.map((item, k) => {
      const { id } = asked[k]!;
      const question = questions[k]!;
      try {
        if (item instanceof ServiceError) throw item;
        return decisionOf(`POST ${this.path}/decisions/batch: item ${k}`, item, id, question);
      } catch (error) {
        if (!(error instanceof ServiceError)) throw error;
        return isNoDecision(error) && question.fallback !== undefined ? this.fallenBack(question, id, error) : error;
      }
    });
    const confirmed = made.filter(
      (found, k): found is Decision => asked[k]!.confirmed && !(found instanceof ServiceError) && found.recorded,
    );
    const errors = await this.activateAll(confirmed, until);
    confirmed.forEach((found) => errors.has(found.id) && this.lose(found, errors.get(found.id)));
    return made;
  }

  private async activateOne(id: string, until: number): Promise<void> {
    const path = `${this.path}/decisions/${quoted(id)}/activate`;
    checkDone(`POST ${path}`, await this.sender.post(path, undefined, until));
  }

  /** Activate decisions; return the errors of those that could not be activated. */
  private async activateAll(decisions: readonly Decision[], until: number): Promise<Map<string, ServiceError>> {
    const ids = [...new Set(decisions.map(({ id }) => id))];
    if (ids.length === 0) return new Map();
    let items: (Item | ServiceError)[];
    try {
      items = await this.batch("activations", { decisions: ids }, until);
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      items = ids.map(() => error);
    }
    return new Map(ids.flatMap((id, k) => (items[k] instanceof ServiceError ? [[id, items[k]]] : [])));
  }

  /** Say that a decision made with `active: false` is in use; `false` if it is a fallback, which the service does not know. */
  async activate(decision: Decision | string): Promise<boolean> {
    const id = idOf(decision);
    if (isUnrecorded(id)) return false;
    await this.activateOne(id, now() + this.sender.timeout);
    return true;
  }

  /** Activate several decisions with one request: what `activate` returns, or an error, for each. */
  async activateBatch(decisions: readonly (Decision | string)[]): Promise<(boolean | ServiceError)[]> {
    const ids = decisions.map(idOf);
    const sent = ids.filter((id) => !isUnrecorded(id));
    const items = sent.length > 0 ? await this.batch("activations", { decisions: sent }) : [];
    return ids.map((id) => {
      if (isUnrecorded(id)) return false;
      const item = items.shift()!;
      return item instanceof ServiceError ? item : true;
    });
  }

  /** Report the reward of a decision; that of a fallback is not sent. If its activation was lost, it is activated first. */
  async reward(
    decision: Decision | string,
    value: number,
    more: Omit<Schemas["RewardRequest"], "value"> = {},
  ): Promise<RewardStatus> {
    const id = idOf(decision);
    if (isUnrecorded(id)) return "unrecorded";
    const body: Schemas["RewardRequest"] = { value, ...more };
    const until = now() + this.sender.timeout;
    if (typeof decision !== "string" && decision.activationLost) await this.activateOne(id, until);
    const path = `${this.path}/decisions/${quoted(id)}/reward`;
    const answer = await this.sender.post(path, body, until);
    checkDone(`POST ${path}`, answer);
    return answer.status === 202 ? "early" : "recorded";
  }

  /**
   * Report several rewards with one request: what `reward` returns, or an error, for each.
   *
   * Decisions whose activation was lost are activated first. If that fails, the error is returned, although the reward is
   * sent: it counts when the decision is activated.
   */
  async rewardBatch(rewards: readonly Reward[]): Promise<(RewardStatus | ServiceError)[]> {
    const all = rewards.map((reward) => ({ ...reward, decision: idOf(reward.decision) }));
    const sent: Schemas["RewardBatch"] = { rewards: all.filter(({ decision }) => !isUnrecorded(decision)) };
    const until = now() + this.sender.timeout;
    const lost = rewards.flatMap(({ decision: of }) => (typeof of !== "string" && of.activationLost ? [of] : []));
    const errors = await this.activateAll(lost, until);
    const items = sent.rewards.length > 0 ? await this.batch("rewards", sent, until) : [];
    return all.map(({ decision }) => {
      if (isUnrecorded(decision)) return "unrecorded";
      const item = errors.get(decision) ?? items[0]!;
      items.shift();
      if (item instanceof ServiceError) return item;
      return item.status === 202 ? "early" : "recorded";
    });
  }

  /** Send a batch; return the answer to each item, or its error. */
  private async batch(
    kind: string,
    body: Schemas["DecisionBatch"] | Schemas["ActivationBatch"] | Schemas["RewardBatch"],
    until?: number,
  ): Promise<(Item | ServiceError)[]> {
    const path = `${this.path}/${kind}`;
    const [asked] = Object.values(body) as unknown[][];
    return resultsOf(`POST ${path}`, (await this.sender.post(path, body, until)).body, asked!.length);
  }

  /** Return the fallback of a question; throw the error if there is none, or if the question was refused. */
  private fallenBack(question: Question, id: string, error: unknown): Decision {
    const ranking = rankingOf(question);
    const arm = ranking[0];
    if (!isNoDecision(error) || arm === undefined) throw error;
    this.sender.warn(`decision ${id} falls back to ${JSON.stringify(arm)}: ${error.message}`);
    const none = { probabilities: null, version: null, control: false, outside_share: false };
    const unknown = { recorded: false, active: false, activationLost: false };
    return { id: unrecordedId(id), arm, ranking, ...none, mode: "fallback", ...unknown };
  }

  /** Mark a decision that could not be activated. */
  private lose(made: Decision, error: unknown): void {
    const why = error instanceof Error ? error.message : String(error);
    const until = "until you call activate or reward with it";
    this.sender.warn(`decision ${made.id} could not be activated, so nothing is learned from it ${until}: ${why}`);
    made.active = false;
    made.activationLost = true;
  }
}

/** Return whether an error leads to the fallback; errors of the caller do not. */
function isNoDecision(error: unknown): error is ServiceError {
  return error instanceof ServiceUnavailable || error instanceof UnexpectedAnswer;
}

function prepared(question: Question) {
  const { fallback, ...asked } = question;
  const id = asked.id ?? newId();
  if (isUnrecorded(id)) {
    throw new TypeError(`id is ${JSON.stringify(id)}, expected another start: these ids are for fallbacks`);
  }
  quoted(id); // which rejects what could not be activated
  checkFallback(question);
  const confirmed = fallback !== undefined && asked.active !== false;
  const body: Schemas["DecisionRequest"] = { ...asked, id, ...(confirmed ? { active: false } : {}) };
  return { id, body, confirmed };
}

/** Reject a fallback that could not be shown, before it is needed. */
function checkFallback(question: Question): void {
  if (question.fallback === undefined) return;
  const ranking = rankingOf(question);
  const known = offeredBy(question);
  const wrong = ranking.find((arm) => question.exclude?.includes(arm) || (known && !known.includes(arm)));
  if (ranking.length === 0 || wrong !== undefined) {
    const given = JSON.stringify(question.fallback);
    throw new TypeError(`fallback is ${given}, expected arms that are offered and not excluded`);
  }
}

function rankingOf(question: Question): string[] {
  const given = question.fallback ?? [];
  return typeof given === "string" ? [given] : given.slice(0, question.top_k ?? 1);
}

function idOf(decision: Decision | string): string {
  return typeof decision === "string" ? decision : decision.id;
}

/** Return a name or an id as a part of a path. */
function quoted(part: string): string {
  // URLs take these for folders, encoded or not.
  if (part === "" || part === "." || part === "..") {
    throw new TypeError(`the name or id is ${JSON.stringify(part)}, expected a text other than "." and ".."`);
  }
  try {
    return encodeURIComponent(part);
  } catch {
    throw new TypeError(`${JSON.stringify(part)} has half of a surrogate pair, expected valid Unicode`);
  }
}

/** Return 128 random bits; browsers have `randomUUID` only on secure pages, and Node 18 has no global `crypto`. */
function newId(): string {
  const bytes = new Uint8Array(16);
  if (globalThis.crypto?.getRandomValues) globalThis.crypto.getRandomValues(bytes);
  else bytes.forEach((_, k) => (bytes[k] = Math.floor(Math.random() * 256)));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
