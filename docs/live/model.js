// The exported model, run by ONNX Runtime in this page.

import * as ort from "./ort.wasm.min.mjs";

/** The content of a file that lies packed beside this one; some servers unpack such files on the way. */
async function unpacked(name) {
  const reply = await fetch(new URL(`${name}.gz`, import.meta.url));
  if (!reply.ok) throw new Error(`${name}.gz could not be read (${reply.status}).`);
  const content = await reply.arrayBuffer();
  const [first, second] = new Uint8Array(content, 0, 2);
  if (first !== 0x1f || second !== 0x8b) return content;
  return new Response(new Blob([content]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

/** Read the model: what it says of itself, and a function from bytes (8 * 8) to its answer. */
export async function load() {
  const [about, runtime, program] = await Promise.all([
    fetch(new URL("model.json", import.meta.url)).then((reply) => reply.json()),
    unpacked("ort-wasm-simd-threaded.wasm"),
    unpacked("model.onnx"),
  ]);
  ort.env.wasm.numThreads = 1; // more need headers that not every server sends
  ort.env.wasm.wasmBinary = runtime;
  const settings = { executionProviders: ["wasm"], graphOptimizationLevel: "basic" }; // others fuse what wasm cannot run
  const session = await ort.InferenceSession.create(new Uint8Array(program), settings);
  return { about, answer: (bytes) => answer(session, about, bytes) };
}

async function answer(session, about, bytes) {
  const said = await session.run({ x: new ort.Tensor("uint8", bytes, [1, 8, 8, 1]) });
  const probabilities = about.classes.map((label, place) => ({
    label,
    probability: said.probabilities.data[place],
    std: said.std.data[place],
  }));
  const best = probabilities.reduce((one, other) => (other.probability > one.probability ? other : one));
  const p = said.p_value.data[0];
  return {
    label: best.label,
    probabilities,
    entropy: said.entropy.data[0],
    mutual_information: said.mutual_information.data[0],
    p_value: p,
    verdict: p <= about.rejection_rate ? "unfamiliar" : "familiar",
  };
}
