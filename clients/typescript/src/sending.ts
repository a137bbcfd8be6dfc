/** Send a request, and again if that may help. Every request of this client can be repeated. */

import { ServiceError, ServiceUnavailable, UnexpectedAnswer } from "./errors.js";
import type { components } from "./schemas.js";

/** How to reach the service. */
export interface Options {
  /** Address of the service, with the path of a proxy if there is one. */
  url: string;
  /** API key. */
  key?: string | undefined;
  /** Milliseconds that a call may take, with all retries; 5000 by default. */
  timeout?: number;
  /** Milliseconds that one attempt may take; by default all that is left of `timeout`. */
  attemptTimeout?: number;
  /** How often a request is sent again if the service does not answer or asks to wait; 2 by default. */
  retries?: number;
  /** Called with a message when a fallback is shown; `console.warn` by default. */
  warn?: (message: string) => void;
  /** Sends requests; the global `fetch` by default. */
  fetch?: typeof fetch;
}

/** The status and the decoded body of an answer. */
export interface Answer {
  status: number;
  body: unknown;
}

const FIRST_WAIT = 50; // milliseconds; each further wait is up to twice as long
const LONGEST_WAIT = 2000;
const LARGEST = 2 ** 26; // bytes of an answer
// A proxy says with 502 and 504 that it lost the connection, or got no answer in time.
const AGAIN = new Set([429, 502, 503, 504]);

/** The time now, which no change of the clock moves. */
export const now = (): number => performance.now();

/** Sends requests to one service. */
export class Sender {
  readonly url: string;
  readonly timeout: number;
  private readonly options: Options;

  constructor(options: Options) {
    if (!/^https?:\/\/[^/]/.test(options.url)) {
      throw new TypeError(`url is ${JSON.stringify(options.url)}, expected an address such as http://127.0.0.1:8000`);
    }
    this.options = options;
    this.url = options.url.replace(/\/+$/, "");
    this.timeout = options.timeout ?? 5000;
  }

  /** Call `warn` of the options. */
  warn(message: string): void {
    (this.options.warn ?? console.warn)(message);
  }

  /** Send a body until the request succeeds, fails for good, or no time is left. */
  async post(path: string, body: unknown, until: number = now() + this.timeout): Promise<Answer> {
    const content = body === undefined ? undefined : encoded(body);
    for (let attempt = 0; ; attempt++) {
      let failure: ServiceError;
      let wait = Math.random() * Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** attempt);
      try {
        const response = await this.once(path, content, until);
        if (response.status >= 200 && response.status < 300) {
          return { status: response.status, body: decoded(path, response) };
        }
        failure = refusal(`POST ${path}`, response.status, response.text, response.location);
        wait += response.retryAfter;
        if (!AGAIN.has(response.status)) throw failure;
      } catch (error) {
        if (error instanceof ServiceError) {
          if (!AGAIN.has(error.status ?? 0)) throw error;
          failure = error;
        } else {
          failure = noAnswer(path, error, attempt + 1);
        }
      }
      if (attempt >= (this.options.retries ?? 2) || now() + wait >= until) throw failure;
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }

  private async once(path: string, content: string | undefined, until: number) {
    const abort = new AbortController();
    const left = Math.max(Math.min(until - now(), this.options.attemptTimeout ?? Infinity), 1);
    const timer = setTimeout(() => abort.abort(new Error(`no answer in ${Math.round(left)} ms`)), left);
    const headers: Record<string, string> = { "Content-Type": "application/json" };
    if (this.options.key !== undefined) headers["Authorization"] = `Bearer ${this.options.key}`;
    try {
      const response = await (this.options.fetch ?? fetch)(this.url + path, {
        method: "POST",
        headers,
        signal: abort.signal,
        redirect: "manual",
        ...(content === undefined ? {} : { body: content }),
      });
      const seconds = Number(response.headers.get("retry-after") ?? 0);
      // Browsers do not say where a redirect leads to.
      const location = response.headers.get("location") ?? (response.type === "opaqueredirect" ? "elsewhere" : undefined);
      // Inside, so that a body that never ends is given up, too.
      const text = await textOf(`POST ${path}`, response);
      return { status: response.status, text, location, retryAfter: 1000 * (seconds > 0 ? seconds : 0) };
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Return a body as JSON; `JSON.stringify` alone would turn NaN into null without a word. */
function encoded(body: unknown): string {
  return JSON.stringify(body, (name, value: unknown) => {
    if (typeof value === "number" && !Number.isFinite(value)) {
      throw new TypeError(`${name || "a number"} is ${value}, expected a finite number`);
    }
    return value;
  });
}

/** Return the body of an answer, unless it is too large. */
async function textOf(what: string, response: Response): Promise<string> {
  const decoder = new TextDecoder();
  const reader = response.body?.getReader();
  let text = "";
  for (let size = 0; reader !== undefined; ) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > LARGEST) {
      await reader.cancel();
      throw new UnexpectedAnswer(what, `more than ${LARGEST} bytes`);
    }
    text += decoder.decode(value, { stream: true });
  }
  return text + decoder.decode();
}

function decoded(path: string, response: { status: number; text: string }): unknown {
  if (response.text === "") return undefined;
  try {
    return JSON.parse(response.text);
  } catch (cause) {
    const shown = JSON.stringify(response.text.slice(0, 300));
    throw new UnexpectedAnswer(`POST ${path}`, `it is not JSON: ${shown}; is this the address of the service?`, cause);
  }
}

/** Return the error that an answer means; `what` says what was asked. */
export function refusal(what: string, status: number, text: string, location?: string): ServiceError {
  let told: components["schemas"]["ErrorDetail"];
  try {
    told = (JSON.parse(text) as components["schemas"]["Error"]).error;
    if (typeof told.code !== "string") throw new TypeError("not an error of the service");
  } catch {
    told = { code: "unexpected_answer", message: JSON.stringify(text.slice(0, 300)) };
  }
  if (status < 400 && location !== undefined) {
    told.message = `redirected to ${location.slice(0, 300)}, expected the address of the service itself`;
  }
  const about = `status ${status}, ${told.code}${told.field ? `, field ${told.field}` : ""}`;
  const kind = status === 429 || status >= 500 ? ServiceUnavailable : ServiceError;
  return new kind(`${what}: ${told.message} (${about})`, {
    status,
    code: told.code,
    ...(told.field ? { field: told.field } : {}),
  });
}

function noAnswer(path: string, error: unknown, attempts: number): ServiceUnavailable {
  const cause = error instanceof Error ? (error.cause instanceof Error ? error.cause : error) : error;
  const why = cause instanceof Error ? cause.message : String(cause);
  const times = attempts === 1 ? "" : ` after ${attempts} attempts`;
  return new ServiceUnavailable(`POST ${path}: no answer${times}: ${why}`, { code: "no_answer", cause: error });
}
