#pragma once

// The datamover of a stream, which TCP is: PDUs one after another, with digests. Pure: octets in,
// octets out; a driver has the socket.

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "iscsi/datamover.h"
#include "wire/iscsi/pdu_size.h"

namespace weft::iscsi {

/// One end of a connection. One thread.
class StreamDatamover final : public Datamover {
 public:
  static constexpr std::size_t kLoginReceiveBytes = 8192;  // RFC 7143 §13.12: until login ends

  /// Must be called before anything else; the client must outlive the datamover, or its
  /// terminate().
  void set_client(DatamoverClient& client) { client_ = &client; }

  /// Called when there is something to send, or the end has come; must not call back.
  void set_output_notice(std::function<void()> notice) { notice_ = std::move(notice); }

  /// Takes what has come from the peer and tells the client of each PDU that is whole. Ignored
  /// after the end.
  void receive(ByteSpan octets, Instant now);

  /// Fills `pieces` with what is to be sent next, in order, and returns how many there are. Valid
  /// until the next call but receive().
  [[nodiscard]] std::size_t gather(std::span<ByteSpan> pieces) const;
  /// The first `octets` octets of that have been sent.
  void consume(std::size_t octets);
  /// Octets that wait to be sent.
  [[nodiscard]] std::size_t output_bytes() const { return output_bytes_; }

  /// True if the driver is to close the stream: at once, or after what waits has been sent.
  [[nodiscard]] bool is_ended() const { return ended_; }
  [[nodiscard]] const std::string& reason() const { return reason_; }

  void send_control(OutgoingPdu pdu) override { enqueue(std::move(pdu)); }
  void put_data(OutgoingPdu data_in) override { enqueue(std::move(data_in)); }
  void get_data(OutgoingPdu r2t, MutableByteSpan /*into*/) override { enqueue(std::move(r2t)); }
  void enable(bool header_digest, bool data_digest, std::size_t max_receive_bytes) override;
  void terminate(Ending ending, std::string_view reason) override;

 private:
  struct Item {
    OutgoingPdu pdu;
    std::array<std::byte, wire::iscsi::kDigestBytes> header_digest{};
    std::array<std::byte, 3 + wire::iscsi::kDigestBytes> tail{};  // padding, data digest
    std::size_t header_digest_bytes{};
    std::size_t tail_bytes{};

    static constexpr std::size_t kPieces = 5;
    [[nodiscard]] std::array<ByteSpan, kPieces> pieces() const;
    [[nodiscard]] std::size_t total() const;
  };

  void enqueue(OutgoingPdu pdu);
  // Takes one PDU from the front of `octets`; false if it is not whole.
  [[nodiscard]] bool take_pdu(ByteSpan& octets, Instant now);

  DatamoverClient* client_{};
  bool header_digest_{};
  bool data_digest_{};
  std::size_t max_receive_bytes_{kLoginReceiveBytes};
  std::vector<std::byte> partial_;  // of the next PDU
  std::deque<Item> output_;
  std::size_t sent_of_first_{};
  std::size_t output_bytes_{};
  bool ended_{};
  std::string reason_;
  std::function<void()> notice_;
};

}  // namespace weft::iscsi
