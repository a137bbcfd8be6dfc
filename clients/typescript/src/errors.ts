/** Errors of the service. */

/** The service refused a request. */
export class ServiceError extends Error {
  /** The HTTP status; `undefined` if there was no answer. */
  readonly status: number | undefined;
  /** What kind of error it is, such as `invalid_request`. */
  readonly code: string | undefined;
  /** The part of the request that is meant, such as `arms[3].features`. */
  readonly field: string | undefined;

  constructor(message: string, about: { status?: number; code?: string; field?: string; cause?: unknown } = {}) {
    super(message, { cause: about.cause });
    this.name = new.target.name;
    this.status = about.status;
    this.code = about.code;
    this.field = about.field;
  }
}

/** The service did not answer in time, or cannot do what was asked at present. */
export class ServiceUnavailable extends ServiceError {}

/** What came is not the answer of a decision service to what was asked; nothing of it is used. */
export class UnexpectedAnswer extends ServiceError {
  constructor(what: string, given: string, cause?: unknown) {
    super(`${what}: unexpected answer: ${given}`, { code: "unexpected_answer", cause });
  }
}
