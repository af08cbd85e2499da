// Arbitrary octets as what an initiator sends, before login and after it, on two connections of one
// session. Whatever comes, the target answers with whole PDUs, keeps its limits, and has neither
// sessions nor nexuses when the connections are gone.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "iscsi/stream_datamover.h"
#include "iscsi/target_server.h"
#include "iscsi/testing/fake_chap_library.h"
#include "iscsi/text.h"
#include "scsi/ram_device.h"
#include "wire/iscsi/login.h"

namespace weft::iscsi {
namespace {

constexpr std::string_view kTarget = "iqn.2026-01.org.example:disks";

void expect(bool holds) {
  if (!holds) {
    std::abort();
  }
}

class World final : public ServerEnvironment {
 public:
  World() {
    const scsi::PortOptions port{.id = scsi::PortId{1}, .protocol = 5, .designator = {}};
    expect(scsi.add_port(port).has_value());
    expect(scsi.add_unit({.lun = scsi::Lun{0}}, *disk).has_value());
    NodeOptions node;
    node.name = kTarget;
    node.scsi = &scsi;
    expect(server.add_node(node).has_value());
  }
  void wake() override {}
  [[nodiscard]] ChapLibrary& chap_library() override { return chap; }

  std::unique_ptr<scsi::RamDevice> disk =
      *scsi::RamDevice::create({.bytes = 1 << 20, .block_bytes = 512});
  testing::FakeChapLibrary chap;
  scsi::Target scsi;
  TargetServer server{{.max_transfer_bytes = 1 << 16}, *this};
};

class Peer {
 public:
  explicit Peer(World& world) : client_(world.server.accept(mover_, {})) {
    mover_.set_client(*client_);
  }
  ~Peer() { client_->handle_lost("the end", {}); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void log_in(std::uint16_t tsih, std::uint16_t cid) {
    wire::iscsi::LoginRequest request;
    request.transit = true;
    request.current_stage = wire::iscsi::LoginStage::LoginOperationalNegotiation;
    request.next_stage = wire::iscsi::LoginStage::FullFeature;
    request.isid = 1;
    request.tsih = tsih;
    request.cid = cid;
    TextWriter text;
    text.add("InitiatorName", "iqn.2026-01.org.example:client").add("TargetName", kTarget);
    if (tsih == 0) {
      text.add("ErrorRecoveryLevel", "2").add("MaxConnections", "2").add("InitialR2T", "No");
    }
    StreamDatamover sender;
    sender.send_control(text_pdu(request, text.text()));
    std::array<ByteSpan, 8> pieces;
    for (const ByteSpan piece : std::span{pieces}.first(sender.gather(pieces))) {
      mover_.receive(piece, {});
    }
    drain();
  }
  void receive(ByteSpan octets) {
    mover_.receive(octets, {});
    drain();
  }

 private:
  void drain() {
    expect(mover_.output_bytes() % 4 == 0);
    mover_.consume(mover_.output_bytes());
  }

  StreamDatamover mover_;
  DatamoverClient* client_;
};

void run(ByteSpan input) {
  if (input.empty()) {
    return;
  }
  World world;
  {
    Peer first{world};
    Peer second{world};
    const bool logs_in = std::to_integer<unsigned>(input[0]) % 4 != 0;
    if (logs_in) {
      first.log_in(0, 1);
      second.log_in(1, 2);
    }
    input = input.subspan(1);
    // Whole headers, mostly, so that a flipped bit is not the end of what is understood.
    for (std::size_t turn = 0; !input.empty() && turn < 64; ++turn) {
      const std::size_t bytes = std::min<std::size_t>(input.size(), 48);
      (turn % 3 == 2 ? second : first).receive(input.first(bytes));
      input = input.subspan(bytes);
    }
    world.server.handle_timeout(Instant{Duration::seconds(3)});
  }
  world.server.handle_timeout(Instant{Duration::seconds(100'000)});
  expect(world.server.sessions() == 0 && world.server.connections() == 0);
  expect(world.scsi.nexuses() == 0);
}

}  // namespace
}  // namespace weft::iscsi

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weft::iscsi::run(std::as_bytes(std::span{data, size}));
  return 0;
}
