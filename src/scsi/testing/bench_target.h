#pragma once

// A target with its initiators for tests: commands in one line each, and a device that answers when
// it is told to. One thread.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "scsi/big_endian.h"
#include "scsi/ram_device.h"
#include "scsi/target.h"

namespace weft::scsi::testing {

using Bytes = std::vector<std::byte>;

/// Passes requests on, at once or when released; fails those that touch bad blocks.
class HeldDevice final : public BlockDevice {
 public:
  HeldDevice(BlockDevice& below, const BlockGeometry& geometry)
      : below_(below), geometry_(geometry) {}

  [[nodiscard]] BlockGeometry geometry() const override { return geometry_; }
  [[nodiscard]] BlockExtent extent(std::uint64_t lba) const override { return below_.extent(lba); }

  void submit(BlockRequest& request) override {
    ++submitted[request.operation];
    forced += request.force_unit_access ? 1 : 0;
    if (holds) {
      held_.push_back(&request);
    } else {
      pass(request);
    }
  }

  /// Answers the request that has waited longest, or another one; false if there is none.
  bool release(std::size_t index = 0) {
    if (index >= held_.size()) {
      return false;
    }
    BlockRequest* const request = held_[index];
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
    pass(*request);
    return true;
  }
  [[nodiscard]] std::size_t waiting() const { return held_.size(); }

  bool holds{};
  std::size_t forced{};
  std::map<BlockOperation, std::size_t> submitted;
  std::map<std::uint64_t, BlockStatus> bad_blocks;

 private:
  void pass(BlockRequest& request) {
    const auto bad = bad_blocks.lower_bound(request.lba);
    if (bad != bad_blocks.end() && bad->first < request.lba + request.blocks) {
      request.client->handle_block_result(request, {.status = bad->second, .lba = bad->first});
      return;
    }
    below_.submit(request);
  }

  BlockDevice& below_;
  BlockGeometry geometry_;
  std::deque<BlockRequest*> held_;
};

/// How one command went.
struct Answer {
  bool ended{};
  Completion completion{};
  Bytes data;  // as much of data-in as was given
  [[nodiscard]] Status status() const { return completion.status; }
  [[nodiscard]] bool good() const {
    return ended && completion.has_status && completion.status == Status::Good;
  }
  /// Key, then code, of fixed or descriptor sense data; zero without.
  [[nodiscard]] std::uint32_t sense() const {
    const ByteSpan octets = completion.sense.octets();
    if (octets.empty()) {
      return 0;
    }
    const bool fixed = (load8(octets, 0) & 0x7F) == 0x70;
    return static_cast<std::uint32_t>((load8(octets, fixed ? 2 : 1) & 0x0F) << 16 |
                                      load16(octets, fixed ? 12 : 2));
  }
};

[[nodiscard]] constexpr std::uint32_t sense(SenseKey key, SenseCode code) {
  return static_cast<std::uint32_t>(std::to_underlying(key)) << 16 | std::to_underlying(code);
}

/// A command that is under way, or was.
class Exchange final : public CommandClient {
 public:
  Exchange(Bytes cdb, Bytes data_out, std::size_t data_in_bytes)
      : cdb_(std::move(cdb)), data_out_(std::move(data_out)), data_in_(data_in_bytes) {
    command.cdb = cdb_;
    command.data_out = data_out_;
    command.data_in = data_in_;
    command.client = this;
  }

  void handle_completion(Command& /*command*/, const Completion& completion) override {
    WEFT_ASSERT(!answer.ended, "a command ends once");
    answer.ended = true;
    answer.completion = completion;
    answer.data.assign(data_in_.begin(),
                       data_in_.begin() + static_cast<std::ptrdiff_t>(completion.data_in_bytes));
  }

  Command command;
  Answer answer;

 private:
  Bytes cdb_;
  Bytes data_out_;
  Bytes data_in_;
};

struct BenchOptions {
  std::uint64_t blocks{2048};
  std::uint32_t block_bytes{512};
  UnitOptions unit{.serial = "SN01"};
  bool keeps_protection{};
  bool has_write_cache{true};
  bool read_only{};
  std::uint32_t atomic_blocks{};
};

[[nodiscard]] inline Bytes bytes(std::initializer_list<unsigned> values) {
  Bytes out;
  for (const unsigned value : values) {
    out.push_back(static_cast<std::byte>(value));
  }
  return out;
}

/// Two ports, of groups 1 and 2, and one unit with LUN 0.
class Bench {
 public:
  using Options = BenchOptions;

  explicit Bench(const Options& options = {})
      : ram(*RamDevice::create({.bytes = options.blocks * options.block_bytes,
                                .block_bytes = options.block_bytes,
                                .keeps_protection = options.keeps_protection})),
        device(*ram, geometry(options)) {
    WEFT_ASSERT(target.add_port({.id = PortId{1}, .group = 1, .designator = Bytes(16)}).has_value(),
                "first");
    WEFT_ASSERT(target.add_port({.id = PortId{2}, .group = 2, .designator = Bytes(16)}).has_value(),
                "second");
    unit = *target.add_unit(options.unit, device);
  }

  /// A nexus of initiator `name`; its power-on unit attention is cleared unless wanted.
  NexusId open(unsigned name, std::uint16_t port = 1, bool keeps_attention = false) {
    const NexusId id = *target.open_nexus(PortId{port}, initiator(name));
    if (!keeps_attention) {
      run(id, bytes({0, 0, 0, 0, 0, 0}));
    }
    return id;
  }
  [[nodiscard]] static TransportId initiator(unsigned name) {
    Bytes id(16);
    id[15] = static_cast<std::byte>(name);
    return srp_transport_id(id);
  }

  /// Submits and keeps it; it may end later.
  Exchange& start(NexusId nexus, Bytes cdb, Bytes data_out = {}, std::size_t data_in = 0,
                  TaskAttribute attribute = TaskAttribute::Simple,
                  std::optional<std::uint64_t> tag = std::nullopt) {
    exchanges.push_back(std::make_unique<Exchange>(std::move(cdb), std::move(data_out), data_in));
    Exchange& exchange = *exchanges.back();
    exchange.command.nexus = nexus;
    exchange.command.tag = tag.value_or(next_tag++);
    exchange.command.attribute = attribute;
    exchange.command.lun = lun;
    target.submit(exchange.command);
    return exchange;
  }
  Answer run(NexusId nexus, Bytes cdb, Bytes data_out = {}, std::size_t data_in = 0) {
    return start(nexus, std::move(cdb), std::move(data_out), data_in).answer;
  }
  /// The response, or nothing while it waits.
  std::shared_ptr<std::optional<TaskManagementResponse>> manage(NexusId nexus,
                                                                TaskManagement function,
                                                                std::uint64_t tag = 0) {
    auto response = std::make_shared<std::optional<TaskManagementResponse>>();
    target.manage(nexus, function, lun, tag,
                  [response](TaskManagementResponse value) { *response = value; });
    return response;
  }

  static BlockGeometry geometry(const Options& options) {
    return {.block_bytes = options.block_bytes,
            .blocks = options.blocks,
            .physical_exponent = 3,
            .atomic_blocks = options.atomic_blocks,
            .read_only = options.read_only,
            .can_discard = true,
            .has_write_cache = options.has_write_cache,
            .keeps_protection = options.keeps_protection};
  }

  std::unique_ptr<RamDevice> ram;
  HeldDevice device;
  Target target;
  std::shared_ptr<LogicalUnit> unit;
  std::deque<std::unique_ptr<Exchange>> exchanges;
  std::uint64_t next_tag{1000};
  std::uint64_t lun{};
};

// CDBs.
[[nodiscard]] inline Bytes cdb10(unsigned opcode, std::uint64_t lba, std::uint64_t blocks,
                                 unsigned flags = 0) {
  Bytes cdb(10);
  store_number(cdb, 0, 1, opcode);
  store_number(cdb, 1, 1, flags);
  store_number(cdb, 2, 4, lba);
  store_number(cdb, 7, 2, blocks);
  return cdb;
}
[[nodiscard]] inline Bytes cdb16(unsigned opcode, std::uint64_t lba, std::uint64_t blocks,
                                 unsigned flags = 0) {
  Bytes cdb(16);
  store_number(cdb, 0, 1, opcode);
  store_number(cdb, 1, 1, flags);
  store_number(cdb, 2, 8, lba);
  store_number(cdb, 10, 4, blocks);
  return cdb;
}
[[nodiscard]] inline Bytes pattern(std::size_t size, unsigned seed) {
  Bytes data(size);
  for (std::size_t i = 0; i < size; ++i) {
    data[i] = static_cast<std::byte>((i * 7 + i / 512 + seed) & 0xFF);
  }
  return data;
}
[[nodiscard]] inline Bytes with_naca(Bytes cdb) {
  cdb.back() |= std::byte{0x04};
  return cdb;
}

}  // namespace weft::scsi::testing
