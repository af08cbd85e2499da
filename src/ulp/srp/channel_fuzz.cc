// Logins, information units, and reports of the CM and the QP in any order, from one initiator
// against a target: the channel ends once everything is reported, nothing of it is left, and the
// channel of another initiator does not notice.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "base/assert.h"
#include "base/testing/pieces.h"
#include "ulp/srp/device_agent.h"
#include "ulp/srp/discovery.h"
#include "ulp/srp/root_path.h"
#include "ulp/srp/testing/bench_channel.h"

namespace weft::srp {
namespace {

using testing::TargetBench;

// A piece: what happens, a small number for it, then a unit's octets.
constexpr fuzz::PieceFormat kFormat{.head_octets = 3};
constexpr std::size_t kMaxPieces = 64;

void play(TargetBench& bench, TargetBench::Login& login, const fuzz::Piece& piece) {
  const ByteSpan octets = std::as_bytes(std::span{piece.message});
  Channel* const channel = bench.target.channel(login.id);
  switch (piece.head[0] % 10) {
    case 0: {
      auto connection = std::make_shared<testing::ManualConnection>(bench.memory);
      const LoginForm form = piece.head[1] % 2 == 0 ? LoginForm::IbCm : LoginForm::RdmaCm;
      const auto id = bench.target.log_in(TargetBench::kPort,
                                          {.form = form, .private_data = octets}, connection);
      if (id) {
        bench.connections.emplace_back(*id, connection);
        login.id = *id;
        login.connection = connection;
      }
      break;
    }
    case 1: {  // as device management and discovery read it
      wire::DevMgtMad mad;
      copy_bytes(std::span{mad.data}.first(std::min<std::size_t>(octets.size(), 192)),
                 octets.first(std::min<std::size_t>(octets.size(), 192)));
      Discovery discovery;
      for (int i = 0; i < 40 && discovery.next_request(); ++i) {
        mad.header = discovery.next_request()->header;
        mad.header.method = wire::MadMethod::GetResp;
        std::ignore = discovery.handle_answer(mad);
      }
      std::ignore = parse_boot_table(octets);
      break;
    }
    case 2:
      if (channel != nullptr) {
        channel->handle_rtu();
      }
      break;
    case 3:
      bench.report_one(login.id, *login.connection);
      break;
    case 4:
      bench.disk.device.holds = piece.head[1] % 2 == 0;
      bench.disk.device.release(piece.head[1] / 2);
      break;
    default:
      if (channel != nullptr) {
        channel->handle_receive(octets);
      }
      break;
  }
  bench.target.check_invariants();
}

void run(std::span<const std::uint8_t> input) {
  TargetBench bench;
  const auto other = bench.connect(TargetBench::login_req(200));
  auto login = bench.log_in();
  auto pieces = fuzz::split(input, kFormat);
  pieces.resize(std::min(pieces.size(), kMaxPieces));
  for (const fuzz::Piece& piece : pieces) {
    play(bench, login, piece);
  }
  bench.disk.device.holds = false;
  while (bench.disk.device.release()) {
  }
  // A login may take the other's name, and end its channel; nothing else may.
  const Channel* const others = bench.target.channel(other.id);
  WEFT_ASSERT(others == nullptr || others->counters().violations == 0,
              "another initiator's channel is its own");
  std::ignore = bench.target.release_port(TargetBench::kPort, [] {});
  bench.settle();
  WEFT_ASSERT(bench.target.channels() == 0, "channels end when all is reported");
  WEFT_ASSERT(bench.disk.unit->tasks() == 0, "and their tasks");
}

// A unit as an initiator might send it.
fuzz::Piece make(Random& random) {
  fuzz::Piece piece;
  piece.head = {static_cast<std::uint8_t>(random.below(256)),
                static_cast<std::uint8_t>(random.below(256))};
  std::vector<std::byte> unit;
  if (random.chance(1, 4)) {
    unit = wire::to_unit(wire::SrpTskMgmt{.tag = random.below(16),
                                          .function = wire::SrpTaskFunction::AbortTask,
                                          .task_tag = random.below(16)});
  } else {
    auto command = TargetBench::command(random.below(16), scsi::testing::cdb10(0x2A, 0, 1));
    command.data_out = {.format = wire::SrpBufferFormat::Direct,
                        .descriptors = {{.address = 0x10'0000, .key = RKey{0x100}, .length = 512}},
                        .length = 512};
    unit = wire::to_unit(command, wire::kSrpDefaultImmediateOffset);
  }
  for (const std::byte octet : unit) {
    piece.message.push_back(std::to_integer<std::uint8_t>(octet));
  }
  return piece;
}

}  // namespace
}  // namespace weft::srp

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weft::srp::run({data, size});
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  return weft::fuzz::mutate_pieces({data, most}, size, seed, weft::srp::kFormat, weft::srp::make);
}
