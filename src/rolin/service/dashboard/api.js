// Requests to the service. The key is kept for this tab only, and never becomes part of an address.

const KEY = "rolin-key";

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const key = {
  get: () => sessionStorage.getItem(KEY),
  set: (text) => sessionStorage.setItem(KEY, text),
  forget: () => sessionStorage.removeItem(KEY),
};

export async function call(method, path, body, given = key.get()) {
  const headers = { Authorization: `Bearer ${given}` };
  let response;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      credentials: "omit",
    });
  } catch {
    throw new Refused(0, "The service does not answer. Is it running?");
  }
  const text = await response.text();
  let found = null;
  try {
    found = text ? JSON.parse(text) : null;
  } catch {
    throw new Refused(response.status, `The answer is not JSON (status ${response.status}).`);
  }
  if (!response.ok) throw new Refused(response.status, found?.error?.message ?? `Status ${response.status}.`);
  return found;
}

export const get = (path) => call("GET", path);
export const bandit = (name, rest = "") => `/v1/bandits/${encodeURIComponent(name)}${rest}`;
