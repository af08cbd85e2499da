#pragma once

// What carries PDUs and data for iSCSI, and what it tells (the Datamover Architecture, RFC 5047
// §8): TCP, where everything is a PDU, or iSER, where the target moves data by RDMA. One datamover
// is one connection.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "base/time.h"
#include "iscsi/parameters.h"
#include "iscsi/pdu.h"
#include "scsi/protection.h"

namespace weft::iscsi {

/// Blocks of a command, and beside them the tuples that a transport's adapter makes, checks and
/// takes off while it moves them (SBC-3 §4.22).
struct ProtectedData {
  scsi::BlockProtection how{};
  SharedBuffer blocks{};
  SharedBuffer tuples{};
};

/// The iSCSI layer of a connection, as its datamover sees it.
class DatamoverClient {
 public:
  /// A PDU has come, in order. Over iSER: none but control-type PDUs, and unsolicited Data-Out.
  virtual void handle_pdu(const ReceivedPdu& pdu, Instant now) = 0;
  /// What get_data() asked for is there as a whole (RFC 5047 §8.2.3). Over TCP it comes as Data-Out
  /// PDUs instead.
  virtual void handle_data_fetched(std::uint32_t target_transfer_tag, Instant now) = 0;
  /// What the adapter has found of the tuples of a command; before handle_data_fetched() or
  /// handle_data_put().
  virtual void handle_protection_error(std::uint32_t /*initiator_task_tag*/,
                                       const scsi::ProtectionError& /*error*/) {}
  /// What put_protected_data() was given is at the initiator, and nothing was said of its command.
  virtual void handle_data_put(std::uint32_t /*initiator_task_tag*/, Instant /*now*/) {}
  /// What agree() had to wait for is over: the full feature phase begins.
  virtual void handle_agreed(Instant /*now*/) {}
  /// Once, the last call: the connection is gone, and so will be the datamover.
  virtual void handle_lost(std::string_view reason, Instant now) = 0;

 protected:
  ~DatamoverClient() = default;
};

/// Calls come from the thread of the iSCSI layer, and never call back into it.
class Datamover {
 public:
  enum class Ending : std::uint8_t {
    AfterOutput,  ///< when all that was given has been sent
    AtOnce,
  };

  virtual ~Datamover() = default;
  /// Changes what is negotiated to what this transport can do, before login.
  virtual void limit(Preferences& /*preferences*/) const {}
  /// Whether it moves the data of an initiator's commands itself, as iSER does: then they come by
  /// send_command() alone, and neither R2T nor Data-In is seen.
  [[nodiscard]] virtual bool moves_data() const { return false; }
  /// An initiator's command without data in its PDU; the buffers are its data, and stay as they are
  /// until its response.
  virtual void send_command(OutgoingPdu pdu, SharedBuffer /*data_out*/, SharedBuffer /*data_in*/) {
    send_control(std::move(pdu));
  }
  /// What login agreed on, before enable(); of a target before its last login response, too. False,
  /// of an initiator alone: the transport's own ends have something to say to each other first, and
  /// handle_agreed() or handle_lost() follows. Until then nothing is sent.
  [[nodiscard]] virtual bool agree(const Parameters& /*agreed*/) { return true; }
  /// Sends a control-type PDU, in order (RFC 5047 §8.1.1).
  virtual void send_control(OutgoingPdu pdu) = 0;
  /// Puts a part of the data that a command reads; `data_in` is a Data-In PDU (RFC 5047 §8.1.2).
  virtual void put_data(OutgoingPdu data_in) = 0;
  /// Fetches a part of the data that a command writes; `r2t` is an R2T PDU, `into` is as long as
  /// it says and stays until the data is there or the connection is gone (RFC 5047 §8.1.3).
  virtual void get_data(OutgoingPdu r2t, MutableByteSpan into) = 0;
  /// The most octets of blocks that the two below take at a time; 0: there is no adapter that can.
  [[nodiscard]] virtual std::size_t max_protected_bytes() const { return 0; }
  /// As get_data(), of all data of a command; the buffers are the datamover's meanwhile.
  virtual void get_protected_data(OutgoingPdu /*r2t*/, ProtectedData /*into*/) {}
  /// As put_data(), of all data of a command. Its response is to wait for handle_data_put(), since
  /// the adapter checks what it sends.
  virtual void put_protected_data(OutgoingPdu /*data_in*/, ProtectedData /*from*/) {}
  /// Login has ended: digests of all that follows, and the most data that a PDU to this end may
  /// have (RFC 5047 §8.1.5, §8.1.7).
  virtual void enable(bool header_digest, bool data_digest, std::size_t max_receive_bytes) = 0;
  /// What each command of the target holds from its PDU until nobody executes it any more, so that
  /// the connection's memory goes after that. Null: it need not.
  [[nodiscard]] virtual std::shared_ptr<const void> command_hold() const { return nullptr; }
  /// Ends the connection (RFC 5047 §8.1.6); handle_lost() follows.
  virtual void terminate(Ending ending, std::string_view reason) = 0;
};

}  // namespace weft::iscsi
