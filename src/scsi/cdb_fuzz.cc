// CDBs, parameter lists, tags, attributes and task management from two initiators, against a unit
// with every feature. Each command must end once when the device has answered, data-in never
// exceeds its buffer, sense data comes with CHECK CONDITION only, and nothing remains in the task
// set.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/random.h"
#include "base/testing/pieces.h"
#include "scsi/command_table.h"
#include "scsi/testing/bench_target.h"

namespace weft::scsi {
namespace {

using testing::Bench;
using testing::Bytes;
using testing::Exchange;

// A piece: how (nexus, attribute, or task management; what the device does), sizes, then the CDB
// and data-out.
constexpr fuzz::PieceFormat kFormat{.head_octets = 4};
constexpr std::size_t kMaxPieces = 64;

class Store final : public ReservationStore {
 public:
  void save(std::uint64_t /*number*/, std::vector<std::byte> image,
            std::function<void(bool)> done) override {
    Reservations again;
    WEFT_ASSERT(again.restore(image).has_value(), "what was saved can be restored");
    done(image.size() % 7 != 0);
  }
};

void check(const Exchange& exchange) {
  WEFT_ASSERT(exchange.answer.ended, "the device has answered everything");
  const Completion& completion = exchange.answer.completion;
  WEFT_ASSERT(completion.data_in_bytes <= exchange.command.data_in.size(), "data-in fits");
  const bool has_sense = !completion.sense.octets().empty();
  WEFT_ASSERT(has_sense == (completion.has_status && completion.status == Status::CheckCondition),
              "sense data and CHECK CONDITION come together");
}

void play(Bench& bench, std::span<const NexusId> nexuses, const fuzz::Piece& piece) {
  const std::uint8_t how = piece.head[0];
  const NexusId nexus = nexuses[how & 1];
  bench.device.holds = (how & 0x40) != 0;
  if ((how & 0x30) == 0x30) {
    bench.manage(nexus, static_cast<TaskManagement>(piece.head[1] % 10), piece.head[2]);
    return;
  }
  if ((how & 0x30) == 0x20) {
    bench.device.release(piece.head[1]);
    return;
  }
  const auto octets = std::as_bytes(std::span{piece.message});
  const std::size_t cdb_bytes =
      std::min<std::size_t>(octets.size(), (how & 0x80) != 0 ? kMaxCdbBytes : 16);
  Bytes data(octets.begin() + static_cast<std::ptrdiff_t>(cdb_bytes), octets.end());
  if ((piece.head[2] & 0x80) != 0) {
    data.resize(std::size_t{piece.head[1]} * 520);
  }
  bench.start(nexus, Bytes(octets.begin(), octets.begin() + static_cast<std::ptrdiff_t>(cdb_bytes)),
              data, std::size_t{piece.head[1]} * 64, static_cast<TaskAttribute>(how >> 2 & 3),
              piece.head[2]);
}

void run(std::span<const std::uint8_t> input) {
  static constexpr std::array kTypes{ProtectionType::None, ProtectionType::Type1,
                                     ProtectionType::Type2, ProtectionType::Type3};
  Store store;
  const ProtectionType type = input.empty() ? ProtectionType::None : kTypes[input[0] & 3];
  Bench bench({
      .blocks = 600,
      .unit = {.serial = "FUZZ", .protection = type, .max_tasks = 12, .store = &store},
      .keeps_protection = true
  });
  const std::array nexuses{bench.open(1), bench.open(2, 2)};
  std::vector<fuzz::Piece> pieces = fuzz::split(input.subspan(input.empty() ? 0 : 1), kFormat);
  pieces.resize(std::min(pieces.size(), kMaxPieces));
  for (const fuzz::Piece& piece : pieces) {
    play(bench, nexuses, piece);
  }
  bench.device.holds = false;
  while (bench.device.release()) {
  }
  for (const NexusId nexus : nexuses) {
    bench.target.close_nexus(nexus, [] {});
  }
  for (const auto& exchange : bench.exchanges) {
    check(*exchange);
  }
  WEFT_ASSERT(bench.unit->tasks() == 0, "nothing is left of closed nexuses");
}

// A command as an initiator might send it: a row of the table, few blocks, plausible lists.
fuzz::Piece make(Random& random) {
  const CommandRow& row = command_table()[random.below(command_table().size())];
  fuzz::Piece piece;
  const auto how = static_cast<std::uint8_t>(random.below(256));
  piece.head = {static_cast<std::uint8_t>(row.cdb_bytes > 16 ? how | 0x80 : how & 0x7F),
                static_cast<std::uint8_t>(random.below(64)),
                static_cast<std::uint8_t>(random.below(256))};
  piece.message.resize(row.cdb_bytes > 16 ? 32 : 16);
  piece.message[0] = row.opcode;
  for (std::size_t i = 1; i < row.cdb_bytes; ++i) {
    const bool low = i + 3 > row.cdb_bytes || random.chance(1, 6);
    piece.message[i] = static_cast<std::uint8_t>(low ? random() & row.usage[i] & 0x1F : 0);
  }
  if (row.opcode == kVariableLength) {
    piece.message[7] = 24;
    piece.message[9] = static_cast<std::uint8_t>(row.service_action);
    piece.message[31] = 1;
  } else if (row.service_action != kNoServiceAction) {
    piece.message[1] = static_cast<std::uint8_t>(row.service_action);
  }
  const std::size_t list = random.below(48);
  for (std::size_t i = 0; i < list; ++i) {
    piece.message.push_back(static_cast<std::uint8_t>(random.chance(1, 3) ? random() & 0xFF : 0));
  }
  return piece;
}

}  // namespace
}  // namespace weft::scsi

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weft::scsi::run({data, size});
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  if (most < 8) {
    return size;
  }
  data[0] = static_cast<std::uint8_t>(size == 0 ? seed : data[0]);
  const std::size_t body = size == 0 ? 0 : size - 1;
  return 1 + weft::fuzz::mutate_pieces({data + 1, most - 1}, body, seed, weft::scsi::kFormat,
                                       weft::scsi::make);
}
