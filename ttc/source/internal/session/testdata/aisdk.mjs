// Asks two questions with the AI SDK, as a program does that traces it, and stores the spans as OTLP's JSON.
//
//     node aisdk.mjs SERVER FILE QUESTION QUESTION
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { context, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { JsonTraceSerializer } from '@opentelemetry/otlp-transformer';
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import * as ai from 'ai';

const [server, file, question, again] = process.argv.slice(2);
const memory = new InMemorySpanExporter();
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(memory)] }));
const otel = await import('@ai-sdk/otel').catch(() => undefined); // from version 7 on
if (otel) ai.registerTelemetry(new otel.OpenTelemetry());

function tool(argument, execute) {
  const properties = { [argument]: { type: 'string' } };
  return ai.tool({ inputSchema: ai.jsonSchema({ type: 'object', properties, required: [argument] }), execute });
}

const settings = {
  model: createOpenAICompatible({ name: 'scripted', baseURL: `${server}/v1`, apiKey: 'sk-none' })('scripted'),
  tools: {
    bash: tool('command', ({ command }) => execFileSync('sh', ['-c', command], { encoding: 'utf8' })),
    read: tool('path', ({ path }) => ({ text: readFileSync(path, 'utf8') })),
  },
  [otel ? 'instructions' : 'system']: 'You look at files.',
  stopWhen: ({ steps }) => steps.length === 9,
  telemetry: { isEnabled: true },
  experimental_telemetry: { isEnabled: true, metadata: { sessionId: 's1' } }, // up to version 6
};
const messages = [{ role: 'user', content: question }];
const first = await ai.generateText({ ...settings, messages });
messages.push(...(first.responseMessages ?? first.response.messages), { role: 'user', content: again });
await ai.streamText({ ...settings, messages }).consumeStream();
writeFileSync(file, JsonTraceSerializer.serializeRequest(memory.getFinishedSpans()));
