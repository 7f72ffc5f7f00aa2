"""The words of generated texts."""

_TEXT = """
accept account actually additional address adjust afternoon again agent airline airport allowed already alternative
amount another apologize applied apply arrange arrival arrive ask assist available away baggage balance because
before began best birthday board book booking both business cabin calculate call cancel card carrier cash
certificate change charge cheaper check checked choose city class clear combine compensation complete concern
confirm connect connecting consider contact correct cost could cover credit currently customer daily date day
delay delayed depart departure describe destination detail difference different direct directly discount
distance does double during earlier early economy eligible email enough ensure error estimate evening exact
exception exchange expect expensive extra family fare faster fee fill final find first flexible flight follow
following form free friend full further gate gift give gold goes great guarantee happen hear help hold hour however
human identify include included inform information insurance instead interested international issue itinerary
journey keep kind know land last late later layover leave leg less let limit list little long look lose lost lower
luggage manage many match maximum may meal mean medical member membership method middle mind minimum missed modify
moment money month morning most move multiple name need new next night nonstop note notice number offer once one
online option order origin original other outbound overnight own paid part passenger passport pay payment people
per perhaps permit person personal phone piece plan platinum please point policy possible prefer price proceed
process profile promise provide purchase question quick quote rate reach ready reason rebook receive record reduce
refund refuse regarding regular regulation relate remain remaining remove reply request require reservation resolve
rest return review right round route rule same save schedule seat second section see select send separate service
several share short should show sign silver similar simple since single sit soon sorry source specific split
standard start state status stay still stop stopover subject submit such suggest sum support sure switch system
take ticket time today together told tomorrow total transfer travel trip trouble try two type unable under
understand unfortunately until update upgrade use valid value various verify version via visit voucher wait want
waive weather week weekend welcome while whole wish within without wonder work would write wrong year yesterday
"""

WORDS = tuple(_TEXT.split())
"""Words of an airline's customer service, in alphabetical order."""
