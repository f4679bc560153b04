"use strict";
const log = document.getElementById("log");
const socket = new WebSocket(location.origin.replace(/^http/, "ws") + "/ws");
socket.binaryType = "arraybuffer";
socket.onmessage = (message) => {
  if (typeof message.data === "string") {
    log.textContent = JSON.stringify(JSON.parse(message.data), null, 1);
  }
};
