// Saving results: one, or all of them.

import { download } from "./parts.js";
import { zip } from "./zip.js";

/** Save what the sliders ask for now, in the photo's own format or another; returns what to say about it. */
export async function save(work, format) {
  const { result } = work, { wanted } = result, made = await work.finished(format);
  if (!made) return "Cancelled";
  download(made.file, made.name);
  result.saved = wanted;
  return `Saved ${made.name}`;
}

export async function saveAll(works) {
  const files = [], results = [];
  for (const work of works.filter((each) => each.done)) {
    const { result } = work, { wanted } = result, made = await work.finished();
    if (!made) continue;
    files.push(made);
    results.push([result, wanted]);
  }
  if (!files.length) return "Cancelled";
  download(await zip(files), "no-shadow.zip");
  for (const [result, wanted] of results) result.saved = wanted;
  return `Saved ${files.length === 1 ? "1 photo" : `${files.length} photos`}`;
}

/** Whether the last result on the way to what is shown would be lost. What was undone was given up. */
export function isUnsaved({ history }) {
  const last = history.past.findLast(({ result }) => result);
  return Boolean(last) && !last.result.isSaved;
}
