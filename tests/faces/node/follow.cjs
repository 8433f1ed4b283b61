// Prints what a client of Node sees of a service, a line of JSON for each change: {"address:port": "zone"}.
// Arguments: consul or eureka, host, port, service. NODE_PATH says where the clients are.
const [kind, host, port, service] = process.argv.slice(2);

function show(entries) {
  console.log(JSON.stringify(Object.fromEntries(entries)));
}

if (kind === "consul") {
  const Consul = require("consul");
  const consul = new Consul({ host, port: Number(port) });
  const watch = consul.watch({
    method: consul.health.service,
    options: { service, passing: true, wait: "10s" },
    backoffFactor: 100,
    backoffMax: 1000,
    maxAttempts: 1000,
  });
  watch.on("change", (found) => show(found.map(({ Service: s }) => [`${s.Address}:${s.Port}`, s.Meta.zone])));
  watch.on("error", (error) => console.error(String(error)));
} else {
  const { Eureka } = require("eureka-js-client");
  const client = new Eureka({
    instance: {
      app: "watcher",
      instanceId: "watcher-1",
      hostName: "watcher",
      ipAddr: "127.0.0.1",
      port: { $: 1, "@enabled": true },
      vipAddress: "watcher",
      dataCenterInfo: { "@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", name: "MyOwn" },
      leaseInfo: { durationInSecs: 30, renewalIntervalInSecs: 2 },
    },
    eureka: {
      host,
      port: Number(port),
      servicePath: "/eureka/apps/",
      heartbeatInterval: 2000,
      registryFetchInterval: 1000,
      shouldUseDelta: kind === "eureka-delta",
      maxRetries: 100,
      requestRetryDelay: 200,
    },
  });
  client.on("registryUpdated", () => {
    const found = client.getInstancesByAppId(service.toUpperCase());
    show(found.map((one) => [`${one.ipAddr}:${one.port.$}`, one.metadata.zone]));
  });
  client.start((error) => error && console.error(String(error)));
}
