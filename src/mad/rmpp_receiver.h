#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/time.h"
#include "mad/mad_message.h"
#include "wire/mad/rmpp.h"

namespace weft::mad {

/// Reassembles a message from RMPP segments (IBTA vol 1 §13.6.4), in any order within the window;
/// duplicates are acknowledged again. Pure: segments and time go in; ACK, STOP or ABORT come out.
/// All header fields are validated before use, and memory is only allocated for data that arrived.
/// Not thread-safe.
class RmppReceiver {
 public:
  /// Limits of one message.
  struct Options {
    std::uint32_t window{};
    std::size_t message_bytes{};  ///< maximum; longer messages are terminated by STOP
    Duration total_time;
  };

  enum class State : std::uint8_t { Receiving, Complete, Failed };

  RmppReceiver(wire::ManagementClass mgmt_class, const Options& options, Instant now);

  /// Processes a segment. Returns the RMPP header of the response, if one is due.
  [[nodiscard]] std::optional<wire::Rmpp> handle_data(const MadBytes& mad);

  /// Terminates the reception for lack of resources. Returns the STOP for the sender.
  [[nodiscard]] wire::Rmpp stop();

  /// Returns the ABORT that is due when the total time has passed.
  [[nodiscard]] std::optional<wire::Rmpp> handle_timeout(Instant now);

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] wire::RmppStatus failure() const { return failure_; }
  [[nodiscard]] Instant deadline() const {
    return state_ == State::Receiving ? total_deadline_ : Instant::never();
  }
  [[nodiscard]] std::size_t bytes_held() const {
    return data_.size() + early_.size() * segment_bytes_;
  }

  /// The first segment, as template for responses; zeros until it arrives.
  [[nodiscard]] const MadBytes& first() const { return first_; }

  /// Returns the message, once, when Complete. Duplicates of segments can still be acknowledged.
  [[nodiscard]] MadMessage take();

 private:
  [[nodiscard]] std::optional<wire::RmppStatus> fault_of(const wire::Rmpp& rmpp) const;
  [[nodiscard]] wire::Rmpp refuse(wire::RmppStatus status);
  void accept(const MadBytes& mad, const wire::Rmpp& rmpp);
  [[nodiscard]] wire::Rmpp acknowledgement() const;

  Options options_;
  std::size_t data_at_;
  std::size_t segment_bytes_;
  Instant total_deadline_;
  MadBytes first_{};
  std::vector<std::byte> data_;              // payload of segments 1 to in_order_
  std::map<std::uint32_t, MadBytes> early_;  // segments behind a gap
  std::uint32_t in_order_{};
  std::uint32_t window_last_{1};
  std::uint32_t announced_{};  // number of segments by the first one's PayloadLength; 0: unknown
  std::optional<std::uint32_t> last_;
  State state_{State::Receiving};
  wire::RmppStatus failure_{};
};

}  // namespace weft::mad
