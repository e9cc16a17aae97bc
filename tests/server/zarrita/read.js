// Read arrays through HTTP with zarrita: node read.js URL... prints for each its type, shape and values.
import { FetchStore, get, open } from "zarrita";

for (const url of process.argv.slice(2)) {
  const array = await open.v3(new FetchStore(url), { kind: "array" });
  const { data, shape } = await get(array);
  const values = Array.from({ length: data.length }, (_, i) => (data.get ? data.get(i) : data[i]));
  console.log(JSON.stringify({ dtype: array.dtype, shape, values: values.map((v) => (typeof v === "bigint" ? String(v) : typeof v === "boolean" ? Number(v) : v)) }));
}
