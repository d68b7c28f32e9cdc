// Requests to the server.

let token = null;

export function setToken(given) {
  token = given;
}

export class Refusal extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** The reply to a request; with a body it is a POST. */
export async function ask(path, body) {
  const headers = {};
  if (token !== null) headers.authorization = `Bearer ${token}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const settings = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
  let reply;
  try {
    reply = await fetch(path, settings);
  } catch {
    throw new Refusal("The server cannot be reached.", 0);
  }
  const said = await reply.json().catch(() => ({ error: `the server answered ${reply.status}` }));
  if (!reply.ok) throw new Refusal(said.error, reply.status);
  return said;
}

/** Some work, of which one call runs at a time; of those that come meanwhile, the last. */
export function latest(work, failed) {
  let running = false;
  let wanted = null;
  return async (...given) => {
    wanted = given;
    if (running) return;
    running = true;
    try {
      while (wanted !== null) {
        const now = wanted;
        wanted = null;
        await work(...now);
      }
    } catch (error) {
      failed(error);
    } finally {
      running = false;
    }
  };
}

/** Some work, once nobody has asked for it for a moment. */
export function settled(work, milliseconds) {
  let timer = null;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), milliseconds);
  };
}
