#pragma once

// Parts of Channel that its sources share; for nobody else.

#include <memory>
#include <vector>

#include "ulp/srp/channel.h"

namespace weft::srp {

/// What the seed's send and receive contexts are: one request from its receipt until its response
/// is sent.
struct Channel::Slot {
  enum class Reading : std::uint8_t { Nothing, TableOut, TableIn, Data };

  std::size_t index{};
  CommandState state{CommandState::Done};
  std::uint64_t tag{};
  std::uint64_t lun{};
  Reading reading{Reading::Nothing};
  bool is_status_only{};  // its data could not be sent
  bool is_aborted{};      // by task management, while its data was read
  TransferPlan plan;
  std::vector<std::byte> cdb;
  std::vector<std::byte> table;  // octets of descriptors being read
  std::vector<std::byte> data_out;
  std::vector<std::byte> data_in;
  std::vector<scsi::BlockLoan> lent;  // blocks of a disk in memory, in place of data_in
  std::vector<ByteSpan> pieces;       // of either, as they are sent
  std::vector<std::byte> unit;        // the response
  scsi::Command command;
  std::vector<std::shared_ptr<PendingManagement>> waiters;  // for the end of the READ
};

/// Task management that waits for several things to end. Its slot is busy until they have, so its
/// channel is there as long.
struct PendingManagement {
  std::size_t waits_for{};
  wire::SrpResponseCode code{wire::SrpResponseCode::Complete};
  Channel* channel{};
  std::size_t slot{};
};

}  // namespace weft::srp
