// The one interface between the page and what does the work. Today that is the server this page came from.
// Photos and masks go in and come out as Blobs; nothing else of the page knows about HTTP.

export class Refused extends Error {
  constructor(message, status) { super(message); this.status = status; }
}
export class Offline extends Error {}

let token = new URLSearchParams(location.hash.slice(1)).get("token") ?? sessionStorage.getItem("token");
if (location.hash) history.replaceState(null, "", location.pathname);
export function logIn(secret) {
  token = secret;
  sessionStorage.setItem("token", secret);
}
if (token) logIn(token);

const pause = (seconds, signal) => new Promise((resolve, reject) => {
  const timer = setTimeout(resolve, 1000 * seconds);
  signal?.addEventListener("abort", () => { clearTimeout(timer); reject(signal.reason); }, { once: true });
});

async function ask(path, { signal, ...options } = {}) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  for (;;) {
    let answer;
    try {
      answer = await fetch(path, { headers, signal, ...options });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Offline("the server does not answer");
    }
    if (answer.ok) return answer;
    const wait = Number(answer.headers.get("Retry-After"));
    if (wait && wait <= 30 && [429, 503].includes(answer.status)) {
      await pause(wait, signal);
      continue;
    }
    const told = await answer.json().catch(() => null);
    throw new Refused(told?.error?.message ?? `the server answered ${answer.status}`, answer.status);
  }
}

function form(parts) {
  const data = new FormData();
  for (const [name, value] of Object.entries(parts)) {
    if (value instanceof Blob) data.set(name, value, name);
    else if (value !== undefined && value !== null) data.set(name, typeof value === "object" ? JSON.stringify(value) : value);
  }
  return data;
}

const factsOf = (answer) => {
  const facts = JSON.parse(answer.headers.get("Shadowmaskformer-Facts") ?? "{}");
  // Masks are painted on a reduced copy, so this one is always true and never news.
  facts.warnings = (facts.warnings ?? []).filter((line) => !line.endsWith("the mask was resized"));
  return facts;
};

const isThere = () => ask("/healthz").then(() => true, () => false);
/** Of an animation the browser shows the first picture, so that is the one to work on. */
const FIRST = { frame: 0 };

/** Resolves when the server answers again. */
export async function back() { while (!(await isThere())) await pause(1); }
export const info = async () => (await ask("/v1/info")).json();
export const example = async () => new File([await (await ask("/example.jpg")).blob()], "example.jpg", { type: "image/jpeg" });

/** Find shadows. Hints are {points: [[x, y], …], shadow} in pixels of `photo`. Returns a gray picture, white = shadow. */
export async function findShadows(photo, { hints, mask, signal } = {}) {
  const answer = await ask("/v1/mask", { method: "POST", body: form({ photo, mask, hints }), signal });
  return { ...factsOf(answer), mask: await answer.blob() };
}

/** Find how the light changes: half floats, for each pixel gain r g b, mask, offset r g b, weight. */
export async function correction(photo, mask, options, { signal } = {}) {
  const answer = await ask("/v1/correction", { method: "POST", body: form({ photo, mask, ...options }), signal });
  return { ...factsOf(answer), planes: new Uint16Array(await answer.arrayBuffer()) };
}

/** Make a picture to look at from a format that this browser does not read. */
export async function preview(photo, { signal } = {}) {
  const answer = await ask("/v1/preview", { method: "POST", body: form({ photo, ...FIRST }), signal });
  return { ...factsOf(answer), picture: await answer.blob() };
}

/** Remove the shadow at full size; `progress(share)` is called on the way. */
export async function remove(photo, mask, options, { signal, progress = () => {} } = {}) {
  const body = form({ photo, mask, ...FIRST, ...options });
  let job = await (await ask("/v1/jobs", { method: "POST", body, signal })).json();
  const path = `/v1/jobs/${job.id}`;
  try {
    while (job.state === "waiting" || job.state === "running") {
      await pause(job.state === "waiting" ? 0.3 : 0.12, signal);
      job = await (await ask(path, { signal })).json();
      progress(job.progress);
    }
    const answer = await ask(`${path}/result`, { signal });
    return { ...factsOf(answer), file: await answer.blob() };
  } finally {
    // Frees the result, or ends the job when it was cancelled here.
    ask(path, { method: "DELETE" }).catch(() => {});
  }
}
