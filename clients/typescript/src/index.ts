/** Client of the rolin decision service. */

export { Bandit, Client, type Decision, type Question, type Reward, type RewardStatus } from "./client.js";
export { ServiceError, ServiceUnavailable, UnexpectedAnswer } from "./errors.js";
export type { Options } from "./sending.js";
