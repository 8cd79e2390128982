/** A proxy in front of a provider of language models. See packages/model-proxy/README.md. */
export { modelProxy, type ProxyOptions, type RequestEnd } from './proxy.ts';
