"""Words without which nobody writes many sentences, or much code, in Latin letters."""

from __future__ import annotations

_BY_LANGUAGE = {
    "English": "the of and to a in is it that for was on are as with his they at be this have from or one had by but "
    "not what all were we when your can said there use an each which she do how their if will up other about out "
    "many then them these so some her would make like him into time has look two more go see no way could my than "
    "been who its now did get come made may i you he me as day comes after wednesday thursday capital am",
    "French": "le la les de des du un une et est en que qui dans pour pas sur au aux avec ce cette il elle ne se plus "
    "par je vous nous son sa ses mais ou",
    "Spanish": "el la los las de del un una y es en que por para con no se su al lo como más pero sus le ya o este",
    "Portuguese": "o a os as de do da dos das um uma e é em que por para com não se no na mais ao como mas foi",
    "Italian": "il lo la gli le di del della un una e è in che per con non si su da al come ma anche sono nel",
    "German": "der die das den dem des ein eine einen und ist in zu mit von für auf nicht sich auch es an als wie "
    "bei ich sie er wir aus nach",
    "Dutch": "de het een en van in is op te dat die voor met zijn niet aan er om ook als maar dan bij",
    "Scandinavian": "og och det att en ett er är i på som av til till for för med ikke inte den har de jeg jag at om",
    "Polish": "i w na z do nie się to jest że o jak po co ale za od czy przez",
    "Czech": "a v na se je že do s z o to jako po ale pro by i",
    "Turkish": "ve bir bu için ile da de olarak daha çok gibi ne var olan en",
    "Vietnamese": "và của là có cho không được một các trong với những người này đã",
    "Indonesian": "yang dan di ini itu dengan untuk dari pada adalah dalam tidak akan ke ada",
    "Romanian": "și în de la a cu că pe nu este un o să din care pentru",
    "Hungarian": "a az és hogy nem is egy ez meg de van csak el",
    "Finnish": "ja on ei että se hän oli mutta kun niin myös ovat tai",
    "Croatian": "i u je na se da za su od s bi ne kao koji što ili do iz po ako",
    "Lithuanian": "ir yra į iš su kad tai ar bet kaip nuo apie jei į už ne bus",
    "Latvian": "un ir uz no ar ka par lai vai nav kas ja to ko pie",
    "Estonian": "ja on ei et see kui või ka mis oli aga ning seda",
    "Basque": "eta da ez bat du edo hau izan den zen dira bai",
    "Azerbaijani": "və bu bir üçün ilə də da ki olan daha hər",
    "Catalan": "el la els les de del un una i és en que per amb no es al",
    "Swahili": "na ya wa kwa ni katika za la cha kuwa hii",
    "Tagalog": "ang ng sa na mga at ay ito para",
    "code": "def return if else elif for while in not and or import from class self print int str void public private "
    "static const let var function new true false null none string include struct enum switch case break self this "
    "async await try except catch throw with as lambda select where insert values fn mut impl end then do begin "
    "echo len range list dict map length push i j n x y args",
    "formulas": "frac sqrt sum int lim sin cos tan log ln exp mathbb left right cdot times begin end text dx dy infty "
    "alpha beta pi theta partial quad leq geq neq therefore",
}

COMMON_WORDS = frozenset(word for words in _BY_LANGUAGE.values() for word in words.split())
