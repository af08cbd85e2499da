// Commands whose tuples a transport's adapter makes, checks and takes off (R-IST-4).

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "iscsi/testing/scripted_initiator.h"
#include "scsi/big_endian.h"
#include "scsi/protection.h"
#include "wire/iscsi/task_management.h"

namespace weft::iscsi {
namespace {

using testing::Connection;
using testing::Fixture;
using testing::pattern;
using wire::iscsi::DataIn;
using wire::iscsi::R2t;
using wire::iscsi::ScsiCommand;
using wire::iscsi::ScsiResponse;

constexpr std::uint16_t kBlocks = 700;  // more than MaxBurstLength
constexpr std::uint32_t kFirst = 40;
constexpr unsigned kChecked = 1;
constexpr unsigned kStripped = 0;

class TargetProtection : public ::testing::Test {
 protected:
  TargetProtection() {
    connection_.mover.protected_bytes = 1 << 20;
    connection_.login({
        {"MaxBurstLength", "262144"}
    });
    connection_.clear_attention();
  }
  /// READ (10) or WRITE (10) of all blocks, with RDPROTECT or WRPROTECT.
  [[nodiscard]] ScsiCommand command(bool writes, unsigned field) {
    ScsiCommand made = connection_.command(writes, kFirst, kBlocks);
    made.cdb[1] = static_cast<std::byte>(field << 5);
    made.expected_data_transfer_length = kBlocks * (field == kStripped ? 512U : 520U);
    return made;
  }
  /// A write whose adapter has moved `data` and `tuples`, and perhaps found an error.
  ScsiResponse write(const std::vector<std::byte>& data, const std::vector<std::byte>& tuples,
                     std::optional<scsi::ProtectionError> error = std::nullopt) {
    const ScsiCommand request = command(true, kChecked);
    connection_.send(request);
    const auto asked = connection_.next<R2t>();
    EXPECT_EQ(asked.buffer_offset, 0U);
    EXPECT_EQ(asked.desired_length, request.expected_data_transfer_length) << "in one";
    const ProtectedData& into = connection_.mover.protected_data;
    EXPECT_EQ(into.blocks.size(), data.size());
    EXPECT_EQ(into.tuples.size(), tuples.size());
    copy_bytes(into.blocks.octets(), data);
    copy_bytes(into.tuples.octets(), tuples);
    if (error) {
      connection_.fail_protection(request.initiator_task_tag, *error);
    }
    connection_.fetched(asked.target_transfer_tag);
    fixture_.server.handle_completions(connection_.now);
    return connection_.next<ScsiResponse>(&sense_);
  }
  /// A read until its blocks are on their way.
  ScsiCommand begin_read() {
    const ScsiCommand request = command(false, kStripped);
    connection_.send(request);
    fixture_.server.handle_completions(connection_.now);
    static_cast<void>(connection_.next<DataIn>());
    EXPECT_TRUE(connection_.is_quiet()) << "its response waits for the adapter";
    return request;
  }
  [[nodiscard]] std::uint16_t sense_code() const {
    return sense_.size() < 16 ? std::uint16_t{} : scsi::load16(sense_, 2 + 12);
  }

  Fixture fixture_{{}, scsi::ProtectionType::Type1};
  Connection connection_{fixture_};
  std::vector<std::byte> sense_;
  const std::vector<std::byte> data_ = pattern(kBlocks * 512);
  const std::vector<std::byte> tuples_ = pattern(kBlocks * scsi::kTupleBytes, 9);
};

TEST_F(TargetProtection, GoesWithTheBlocksOfAWholeCommand) {
  const ScsiResponse written = write(data_, tuples_);
  EXPECT_EQ(written.status, 0);
  EXPECT_FALSE(written.underflow || written.overflow);
  const ScsiCommand request = begin_read();
  const ProtectedData& from = connection_.mover.protected_data;
  EXPECT_TRUE(std::ranges::equal(from.blocks.octets(), data_));
  EXPECT_TRUE(std::ranges::equal(from.tuples.octets(), tuples_)) << "which the disk did not check";
  EXPECT_FALSE(from.how.transfers_tuples);
  EXPECT_TRUE(from.how.check.guard);
  connection_.data_put(request.initiator_task_tag);
  const auto read = connection_.next<ScsiResponse>();
  EXPECT_EQ(read.status, 0);
  EXPECT_FALSE(read.underflow || read.overflow);
  connection_.data_put(request.initiator_task_tag);  // again: nothing
  EXPECT_TRUE(connection_.is_quiet());
}

// SPC-4 Annex F: 10h/01h to 03h.
TEST_F(TargetProtection, ThatFailsEndsTheCommand) {
  EXPECT_EQ(write(data_, tuples_).status, 0);
  using enum scsi::ProtectionFault;
  for (const auto& [fault, code] : {
           std::pair{Guard,          0x1001},
           std::pair{ApplicationTag, 0x1002},
           std::pair{ReferenceTag,   0x1003}
  }) {
    const scsi::ProtectionError error{.fault = fault, .block = 5};
    const std::vector<std::byte> other(data_.size());
    EXPECT_EQ(write(other, tuples_, error).status, 2);
    EXPECT_EQ(sense_code(), code);
    EXPECT_EQ(scsi::load32(sense_, 2 + 3), kFirst + 5);
    const ScsiCommand request = begin_read();
    EXPECT_TRUE(std::ranges::equal(connection_.mover.protected_data.blocks.octets(), data_))
        << "nothing was written";
    connection_.fail_protection(request.initiator_task_tag, error);
    connection_.data_put(request.initiator_task_tag);
    EXPECT_EQ(connection_.next<ScsiResponse>(&sense_).status, 2);
    EXPECT_EQ(sense_code(), code);
    EXPECT_EQ(scsi::load32(sense_, 2 + 3), kFirst + 5);
  }
}

TEST_F(TargetProtection, OfACommandThatFailsBeforeItsDataIsNotMoved) {
  ScsiCommand request = connection_.command(false, 1 << 20, kBlocks);  // beyond the disk
  connection_.send(request);
  fixture_.server.handle_completions(connection_.now);
  const auto refused = connection_.next<ScsiResponse>();
  EXPECT_EQ(refused.status, 2);
  EXPECT_TRUE(refused.underflow);
  EXPECT_EQ(refused.residual, request.expected_data_transfer_length);
  request = command(false, kChecked);
  scsi::store_number(MutableByteSpan{request.cdb}, 2, 4, 1 << 20);
  connection_.send(request);
  fixture_.server.handle_completions(connection_.now);
  EXPECT_EQ(connection_.next<ScsiResponse>().residual, kBlocks * 520U) << "of the transfer";
}

// RFC 7143 §11.5: what is aborted is not answered, though its data has gone.
TEST_F(TargetProtection, EndsWithATaskThatIsAbortedMeanwhile) {
  using wire::iscsi::TaskManagementFunction;
  for (const auto function :
       {TaskManagementFunction::AbortTask, TaskManagementFunction::LogicalUnitReset}) {
    const ScsiCommand request = begin_read();
    wire::iscsi::TaskManagementRequest abort;
    abort.immediate = true;
    abort.function = function;
    abort.initiator_task_tag = connection_.next_tag++;
    abort.referenced_task_tag = request.initiator_task_tag;
    abort.cmd_sn = connection_.cmd_sn;
    connection_.send(abort);
    fixture_.server.handle_completions(connection_.now);
    EXPECT_EQ(connection_.next<wire::iscsi::TaskManagementResponse>().response,
              wire::iscsi::TaskManagementOutcome::Complete);
    connection_.fail_protection(request.initiator_task_tag, {});
    connection_.data_put(request.initiator_task_tag);
    EXPECT_TRUE(connection_.is_quiet());
    if (function == TaskManagementFunction::LogicalUnitReset) {
      connection_.clear_attention();
    }
  }
}

// Immediate data, or more or less than the CDB says: what the adapter would move is not whole.
TEST_F(TargetProtection, IsTheDisksWhereTheAdapterCannot) {
  ScsiCommand request = connection_.command(true, kFirst, 1);
  connection_.send(request, pattern(512));
  fixture_.server.handle_completions(connection_.now);
  EXPECT_EQ(connection_.next<ScsiResponse>().status, 0);
  request = connection_.command(false, kFirst, 1);
  request.expected_data_transfer_length = 1'024;
  connection_.send(request);
  fixture_.server.handle_completions(connection_.now);
  std::vector<std::byte> found;
  EXPECT_TRUE(connection_.next<DataIn>(&found).has_status);
  EXPECT_EQ(found, pattern(512));
  connection_.mover.protected_bytes = 511;
  request = connection_.command(false, kFirst, 1);
  connection_.send(request);
  fixture_.server.handle_completions(connection_.now);
  EXPECT_TRUE(connection_.next<DataIn>().has_status);
}

}  // namespace
}  // namespace weft::iscsi
