#pragma once

#include <vector>

#include "hca/packet.h"
#include "hca/train.h"

namespace weft::sim {

/// A transmit sink that splits trains into single packets, as they appear on the wire.
class SingleSink : public hca::TransmitSink {
 public:
  [[nodiscard]] std::uint32_t max_train_bytes() const override { return 1024; }
  [[nodiscard]] bool send(hca::Flow flow, const hca::PacketHeader& header,
                          std::span<const ByteSpan> gather) override {
    std::vector<std::byte> payload;
    for (const ByteSpan piece : gather) {
      payload.insert(payload.end(), piece.begin(), piece.end());
    }
    const hca::Packet train{.header = header, .payload = payload};
    for (std::uint32_t i = 0; i < header.packet_count; ++i) {
      put_on_wire(flow, hca::single_of_train(train, i));
    }
    return true;
  }

 private:
  virtual void put_on_wire(hca::Flow flow, const hca::Packet& single) = 0;
};

}  // namespace weft::sim
